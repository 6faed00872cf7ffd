package store_test

import (
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/forebay-streams/forebay/store"
)

// testSerde checks that v has these bytes, both ways; same compares values.
func testSerde[T any](t *testing.T, s store.Serde[T], v T, want string, same func(a, b T) bool) {
	t.Helper()
	h := store.NewHeaders(header("k", "v"))
	b, err := s.Serialize("topic", &h, v)
	require.NoError(t, err)
	require.NotNil(t, b)
	require.Equal(t, want, hex.EncodeToString(b))
	if a, ok := s.(store.Appender[T]); ok {
		got, err := a.Append([]byte("x"), v)
		require.NoError(t, err)
		require.Equal(t, "78"+want, hex.EncodeToString(got))
	}
	back, err := s.Deserialize("topic", &h, b)
	require.NoError(t, err)
	for i := range b {
		b[i] ^= 0xff // a copy does not see it
	}
	require.True(t, same(v, back), "%v is not %v", back, v)
	require.Equal(t, []store.Header{header("k", "v")}, h.List())
	require.Implements(t, (*store.HeaderFree)(nil), s)
}

func equal[T comparable](a, b T) bool { return a == b }

func sameFloat(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

func TestFixedSerdes(t *testing.T) {
	testSerde(t, store.Int32(), 0, "00000000", equal[int32])
	testSerde(t, store.Int32(), 258, "00000102", equal[int32])
	testSerde(t, store.Int32(), -1, "ffffffff", equal[int32])
	testSerde(t, store.Int32(), math.MinInt32, "80000000", equal[int32])
	testSerde(t, store.Int64(), 258, "0000000000000102", equal[int64])
	testSerde(t, store.Int64(), -2, "fffffffffffffffe", equal[int64])
	testSerde(t, store.Float64(), 1.5, "3ff8000000000000", sameFloat)
	testSerde(t, store.Float64(), math.Copysign(0, -1), "8000000000000000", sameFloat)
	testSerde(t, store.Float64(), math.Inf(-1), "fff0000000000000", sameFloat)
	testSerde(t, store.Float64(), math.NaN(), "7ff8000000000000", sameFloat)
	testSerde(t, store.Float64(), math.Float64frombits(0xfff0000000000001), "7ff8000000000000", sameFloat)
	testSerde(t, store.UUID(), uuid.MustParse("0af76519-16cd-43dd-8448-eb211c80319c"),
		hex.EncodeToString([]byte("0af76519-16cd-43dd-8448-eb211c80319c")), equal[uuid.UUID])
}

func TestVariableSerdes(t *testing.T) {
	testSerde(t, store.String(), "", "", equal[string])
	testSerde(t, store.String(), "hi", "6869", equal[string])
	testSerde(t, store.String(), "é€𝄞", "c3a9e282acf09d849e", equal[string])
	same := func(a, b []byte) bool { return string(a) == string(b) && (a == nil) == (b == nil) }
	testSerde(t, store.Bytes(), []byte{}, "", same)
	testSerde(t, store.Bytes(), []byte{0, 0xff}, "00ff", same)
	testSerde(t, store.RawBytes(), []byte{}, "", same)
	testSerde(t, store.RawBytes(), []byte{0, 0xff}, "00ff", same)
}

func TestAppenders(t *testing.T) {
	assert.Implements(t, (*store.Appender[int32])(nil), store.Int32())
	assert.Implements(t, (*store.Appender[int64])(nil), store.Int64())
	assert.Implements(t, (*store.Appender[float64])(nil), store.Float64())
	assert.Implements(t, (*store.Appender[string])(nil), store.String())
	assert.Implements(t, (*store.Appender[[]byte])(nil), store.Bytes())
	assert.Implements(t, (*store.Appender[[]byte])(nil), store.RawBytes())
	assert.Implements(t, (*store.Appender[uuid.UUID])(nil), store.UUID())
}

func TestWrongSizes(t *testing.T) {
	for n := range 40 {
		b := make([]byte, n)
		_, err := store.Int32().Deserialize("", nil, b)
		assert.Equal(t, n != 4, err != nil)
		_, err = store.Int64().Deserialize("", nil, b)
		assert.Equal(t, n != 8, err != nil)
		_, err = store.Float64().Deserialize("", nil, b)
		assert.Equal(t, n != 8, err != nil)
		_, err = store.UUID().Deserialize("", nil, b)
		require.Error(t, err)
	}
	for _, s := range []string{
		"{0af76519-16cd-43dd-8448-eb211c80319c}", "0af7651916cd43dd8448eb211c80319c",
		"0af76519-16cd-43dd-8448-eb211c80319x",
	} {
		_, err := store.UUID().Deserialize("", nil, []byte(s))
		require.Error(t, err, s)
	}
}

func TestBytesNil(t *testing.T) {
	b, err := store.Bytes().Serialize("", nil, nil)
	require.NoError(t, err)
	assert.Nil(t, b)
	got, err := store.Bytes().(store.Appender[[]byte]).Append([]byte("x"), nil)
	require.ErrorIs(t, err, store.ErrNilKey)
	assert.Equal(t, []byte("x"), got)
	v := []byte("v")
	b, err = store.Bytes().Serialize("", nil, v)
	require.NoError(t, err)
	v[0] = 'x'
	assert.Equal(t, []byte("v"), b, "the store keeps what it got")
}

func TestRawBytesDoesNotCopy(t *testing.T) {
	v := []byte("v")
	b, err := store.RawBytes().Serialize("", nil, v)
	require.NoError(t, err)
	assert.Same(t, &v[0], &b[0])
	back, err := store.RawBytes().Deserialize("", nil, b)
	require.NoError(t, err)
	assert.Same(t, &v[0], &back[0])
	b, err = store.RawBytes().Serialize("", nil, nil)
	require.NoError(t, err)
	assert.Nil(t, b)
}

func TestSerdeFuncs(t *testing.T) {
	errBad := errors.New("bad")
	s := store.SerdeFuncs(
		func(v int) ([]byte, error) {
			if v == 0 {
				return nil, nil
			}
			if v < 0 {
				return nil, errBad
			}
			return strconv.AppendInt(nil, int64(v), 10), nil
		},
		func(b []byte) (int, error) { return strconv.Atoi(string(b)) },
	)
	testSerde(t, s, 42, "3432", equal[int])
	b, err := s.Serialize("", nil, 0)
	require.NoError(t, err)
	assert.Nil(t, b)
	_, err = s.Serialize("", nil, -1)
	require.ErrorIs(t, err, errBad)
	_, err = s.Deserialize("", nil, []byte("x"))
	require.Error(t, err)
	assert.NotImplements(t, (*store.Appender[int])(nil), s)
}

type order struct {
	ID    string
	Lines []int `json:",omitempty"`
}

func TestJSON(t *testing.T) {
	same := func(a, b *order) bool { return assert.ObjectsAreEqual(a, b) }
	testSerde(t, store.JSON[*order](), &order{"a", []int{1}}, hex.EncodeToString([]byte(`{"ID":"a","Lines":[1]}`)), same)
	testSerde(t, store.JSON[*order](), nil, hex.EncodeToString([]byte("null")), same)
	testSerde(t, store.JSON[string](), "", hex.EncodeToString([]byte(`""`)), equal[string])
	_, err := store.JSON[order]().Deserialize("", nil, []byte("{"))
	require.Error(t, err)
	_, err = store.JSON[order]().Deserialize("", nil, []byte{})
	require.Error(t, err)
	_, err = store.JSON[float64]().Serialize("", nil, math.NaN())
	require.Error(t, err)
}

func TestProtobuf(t *testing.T) {
	strings := store.Protobuf[*wrapperspb.StringValue]()
	same := func(a, b *wrapperspb.StringValue) bool { return proto.Equal(a, b) }
	testSerde(t, strings, wrapperspb.String("hi"), "0a026869", same)
	testSerde(t, strings, wrapperspb.String(""), "", same)
	b, err := strings.Serialize("", nil, nil)
	require.NoError(t, err)
	assert.Nil(t, b)
	_, err = strings.Deserialize("", nil, []byte{0x0a, 0x05})
	require.Error(t, err)
	_, err = strings.Serialize("", nil, wrapperspb.String("\xff"))
	require.Error(t, err)

	structs := store.Protobuf[*structpb.Struct]()
	v, err := structpb.NewStruct(map[string]any{"a": 1, "b": "x", "c": true, "d": nil, "e": "y"})
	require.NoError(t, err)
	first, err := structs.Serialize("", nil, v)
	require.NoError(t, err)
	for range 20 {
		b, err = structs.Serialize("", nil, v)
		require.NoError(t, err)
		require.Equal(t, first, b, "map order must not show")
	}
	back, err := structs.Deserialize("", nil, b)
	require.NoError(t, err)
	assert.True(t, proto.Equal(v, back))
}
