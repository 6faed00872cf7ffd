package dsl

type rowFormat interface{}
