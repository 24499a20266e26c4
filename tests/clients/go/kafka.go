package main

// The program of docs/kafka.md needs it.
import _ "github.com/segmentio/kafka-go"
