// go-redis: every BF method of a client, in each protocol that is named.
//
//	main ADDRESS PROTOCOL...
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strconv"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func main() {
	for _, protocol := range os.Args[2:] {
		number, err := strconv.Atoi(protocol)
		gives(err, err, nil)
		client := redis.NewClient(&redis.Options{Addr: os.Args[1], Protocol: number})
		gives(client.FlushAll(ctx).Val(), nil, "OK")
		reserves(client)
		adds(client)
		asks(client)
		moves(client)
		client.Close()
		fmt.Printf("RESP%d\n", number)
	}
}

// gives ends the program unless a call gave what it is to give, without an error.
func gives(value any, err error, expected any) {
	if err != nil || !reflect.DeepEqual(value, expected) {
		panic(fmt.Sprintf("%#v and the error %v, not %#v", value, err, expected))
	}
}

func refuses(err error, text string) {
	if err == nil || err.Error() != text {
		panic(fmt.Sprintf("the error %v, not %s", err, text))
	}
}

func reserves(client *redis.Client) {
	value, err := client.BFReserve(ctx, "reserved", 0.01, 100).Result()
	gives(value, err, "OK")
	value, err = client.BFReserveExpansion(ctx, "wide", 0.001, 1000, 4).Result()
	gives(value, err, "OK")
	value, err = client.BFReserveNonScaling(ctx, "fixed", 0.01, 3).Result()
	gives(value, err, "OK")
	options := &redis.BFReserveOptions{Capacity: 1000, Error: 0.001, Expansion: 4}
	value, err = client.BFReserveWithArgs(ctx, "arguments", options).Result()
	gives(value, err, "OK")
	refuses(client.BFReserve(ctx, "reserved", 0.01, 100).Err(), "ERR item exists")
	refuses(client.BFReserve(ctx, "new", 1, 100).Err(), "ERR error rate must be in the range (0.000000, 1.000000)")
}

func adds(client *redis.Client) {
	added, err := client.BFAdd(ctx, "added", "item").Result()
	gives(added, err, true)
	added, err = client.BFAdd(ctx, "added", "item").Result()
	gives(added, err, false)
	several, err := client.BFMAdd(ctx, "many", "text", []byte("\xff\x00\r\n"), "", "text").Result()
	gives(several, err, []bool{true, true, true, false})
	options := &redis.BFInsertOptions{Capacity: 1000, Error: 0.001, Expansion: 4}
	several, err = client.BFInsert(ctx, "inserted", options, "a", "b").Result()
	gives(several, err, []bool{true, true})
	several, err = client.BFInsert(ctx, "inserted", &redis.BFInsertOptions{NoCreate: true}, "a", "c").Result()
	gives(several, err, []bool{false, true})
	refuses(client.BFInsert(ctx, "missing", &redis.BFInsertOptions{NoCreate: true}, "a").Err(), "ERR not found")
	several, err = client.BFMAdd(ctx, "fixed", "a", "b", "a", "c").Result()
	gives(several, err, []bool{true, true, false, true})
	refuses(client.BFAdd(ctx, "fixed", "d").Err(), "ERR non scaling filter is full")
}

func asks(client *redis.Client) {
	found, err := client.BFExists(ctx, "many", []byte("\xff\x00\r\n")).Result()
	gives(found, err, true)
	found, err = client.BFExists(ctx, "missing", "other").Result()
	gives(found, err, false)
	several, err := client.BFMExists(ctx, "many", "other", "text", "").Result()
	gives(several, err, []bool{false, true, true})
	items, err := client.BFCard(ctx, "many").Result()
	gives(items, err, int64(3))
	items, err = client.BFCard(ctx, "missing").Result()
	gives(items, err, int64(0))

	figures := redis.BFInfo{Capacity: 1000, Size: 2040, Filters: 1, ItemsInserted: 3, ExpansionRate: 4}
	info, err := client.BFInfo(ctx, "inserted").Result()
	gives(info, err, figures)
	capacity, err := client.BFInfoCapacity(ctx, "inserted").Result()
	gives(capacity.Capacity, err, figures.Capacity)
	size, err := client.BFInfoSize(ctx, "inserted").Result()
	gives(size.Size, err, figures.Size)
	filters, err := client.BFInfoFilters(ctx, "inserted").Result()
	gives(filters.Filters, err, figures.Filters)
	inserted, err := client.BFInfoItems(ctx, "inserted").Result()
	gives(inserted.ItemsInserted, err, figures.ItemsInserted)
	expansion, err := client.BFInfoExpansion(ctx, "inserted").Result()
	gives(expansion.ExpansionRate, err, figures.ExpansionRate)
	refuses(client.BFInfo(ctx, "missing").Err(), "ERR not found")
}

func moves(client *redis.Client) {
	iterator := int64(0)
	for {
		dumped, err := client.BFScanDump(ctx, "many", iterator).Result()
		if dumped.Iter == 0 {
			gives(dumped.Data, err, "")
			break
		}
		loaded, err := client.BFLoadChunk(ctx, "copy", dumped.Iter, dumped.Data).Result()
		gives(loaded, err, "OK")
		iterator = dumped.Iter
	}
	copied, err := client.Dump(ctx, "copy").Result()
	gives(copied, err, client.Dump(ctx, "many").Val())
	refuses(client.BFLoadChunk(ctx, "bad", 1, "nonsense").Err(), "ERR received bad data")
}
