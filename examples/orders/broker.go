package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/changelog"
)

// topics are those of one run, and where they are.
type topics struct {
	brokers          []string
	app              string // application id: the group, and the start of the names
	input, changelog string
}

func (t topics) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(t.brokers...), kgo.ClientID(t.app))...)
}

// embedded starts a broker in this process.
func embedded() (addresses []string, stop func(), err error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return nil, nil, err
	}
	return cluster.ListenAddrs(), cluster.Close, nil
}

// create makes the topics, under a new application id so that runs do not meet.
func create(ctx context.Context, brokers []string) (topics, error) {
	app := "orders-" + time.Now().UTC().Format("20060102-150405.000")
	t := topics{brokers: brokers, app: app, input: app + "-input", changelog: changelog.Name(app, storeName)}
	cl, err := t.client()
	if err != nil {
		return t, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	// The orders are older than any retention.
	forever := "-1"
	if _, err := adm.CreateTopic(ctx, 1, -1, map[string]*string{"retention.ms": &forever}, t.input); err != nil {
		return t, err
	}
	err = changelog.EnsureTopic(ctx, adm, changelog.Spec{Topic: t.changelog, Partitions: 1, Kind: changelog.KeyValue})
	if err != nil {
		err = errors.Join(err, t.remove(ctx))
	}
	return t, err
}

// remove deletes what there is of the topics and the group, also after an interrupt.
func (t topics) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	cl, err := t.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	_, err = adm.DeleteGroup(ctx, t.app)
	if errors.Is(err, kerr.GroupIDNotFound) {
		err = nil
	}
	for _, topic := range []string{t.input, t.changelog} {
		if _, e := adm.DeleteTopic(ctx, topic); !errors.Is(e, kerr.UnknownTopicOrPartition) {
			err = errors.Join(err, e)
		}
	}
	return err
}
