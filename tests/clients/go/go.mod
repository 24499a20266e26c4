module libbloom/clients

go 1.23

require (
	github.com/redis/go-redis/v9 v9.17.2
	github.com/segmentio/kafka-go v0.4.51
)
