package main

var sessionScenarios = []scenario{
	{name: "session, plain", store: "session", parts: "Kp Fp Kp Fp Kp Fp Kp"},
	{name: "session, headers", store: "session", parts: "Fh Kh Fh Kh Fh Kh Fh"},
	{name: "session, restored", store: "session", parts: "Kh Fhw Kh Khw Fh Fhw Kh"},
	{name: "session, plain to headers by forebay", store: "session", parts: "Kp Fh- Kh- Fh- Kh- Fp no Fh Kh", mixed: true},
	{name: "session, plain to headers by Kafka", store: "session", parts: "Fp Kh- Fh- Kh- Fh- Kh Fh", mixed: true},
	{name: "session, time-ordered", store: "session", parts: "Fh Kh Fh Kh Fh Kh Fh", ordered: true},
}
