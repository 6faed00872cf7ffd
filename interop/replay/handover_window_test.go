package main

var windowScenarios = []scenario{
	{name: "window, plain", store: "window", parts: "Kp Fp Kp Fp Kp Fp Kp"},
	{name: "window, timestamped", store: "window", parts: "Ft Kt Ft Kt Ft Kt Ft"},
	{name: "window, headers", store: "window", parts: "Kh Fh Kh Fh Kh Fh Kh"},
	{name: "window, restored", store: "window", parts: "Kh Fhw Kh Khw Fh Fhw Kh"},
	{name: "window, duplicates", store: "window", parts: "Kh Fh Kh Fh Kh Fh Kh", duplicates: true},
	{name: "window, time-ordered", store: "window", parts: "Fh Kh Fh Kh Fh Kh Fh", ordered: true},
	{name: "window, time-ordered, to headers", store: "window", parts: "Kt Fh- Kh- Ft no Fh- Kh- Fh Kh", ordered: true},

	{name: "window, plain to headers by forebay", store: "window", parts: "Kp Fh- Kh- Fh- Kh- Fp no Fh Kh Fh Kh", mixed: true},
	{name: "window, plain to headers by Kafka", store: "window", parts: "Fp Kh- Fh- Kh- Fh- Kh Fh", mixed: true},
	{name: "window, timestamped to headers", store: "window", parts: "Kt Fh- Kh- Fh- Kh- Fh Kh Fh Ft no", mixed: true},
	{name: "window, drained", store: "window", parts: "Kp Fh-s Kh- Fh-d Kh Fh Kh"},

	// Nothing expires in these: it is not known what stream time the next part begins with.
	// When a kill leaves segments at different changelog offsets, Kafka Streams goes on from
	// the newest segment's and loses what the older ones lack;
	// forebay goes on from the least, so it is first after a part with small memtables.
	{name: "window, forebay killed", store: "window", parts: "Kh Fh! Kh Fh~! Fh Kh Fh~! Fh Kh", retention: 36_000_000},
	{name: "window, Kafka killed", store: "window", parts: "Fp Kh- Kh~! Fh Kh! Fh Kh Fh", retention: 36_000_000},
}
