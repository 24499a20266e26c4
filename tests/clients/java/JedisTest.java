import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.bloom.BFInsertParams;
import redis.clients.jedis.bloom.BFReserveParams;
import redis.clients.jedis.exceptions.JedisDataException;

/** Jedis: every method that sends a BF command. Arguments: the port, then the protocols. */
public class JedisTest {
    public static void main(String[] arguments) {
        for (String protocol : Arrays.asList(arguments).subList(1, arguments.length)) {
            var config = DefaultJedisClientConfig.builder()
                    .protocol(protocol.equals("3") ? RedisProtocol.RESP3 : RedisProtocol.RESP2)
                    .build();
            var address = new HostAndPort("127.0.0.1", Integer.parseInt(arguments[0]));
            try (var redis = new JedisPooled(address, config)) {
                redis.sendCommand(Protocol.Command.FLUSHALL);
                reserves(redis);
                adds(redis);
                asks(redis);
                moves(redis);
            }
            System.out.println("RESP" + protocol);
        }
    }

    static void reserves(JedisPooled redis) {
        equal(redis.bfReserve("reserved", 0.01, 100), "OK");
        equal(redis.bfReserve("wide", 0.001, 1000, BFReserveParams.reserveParams().expansion(4)), "OK");
        equal(redis.bfReserve("fixed", 0.01, 3, BFReserveParams.reserveParams().nonScaling()), "OK");
        refused(() -> redis.bfReserve("reserved", 0.01, 100), "ERR item exists");
        refused(
                () -> redis.bfReserve("new", 1, 100),
                "ERR error rate must be in the range (0.000000, 1.000000)");
    }

    static void adds(JedisPooled redis) {
        equal(redis.bfAdd("added", "item"), true);
        equal(redis.bfAdd("added", "item"), false);
        equal(redis.bfMAdd("many", "text", "", "text"), List.of(true, true, false));
        equal(redis.bfInsert("inserted", "a", "b"), List.of(true, true));
        var options = BFInsertParams.insertParams().capacity(1000).error(0.001).expansion(4);
        equal(redis.bfInsert("options", options, "a", "b"), List.of(true, true));
        var existing = BFInsertParams.insertParams().noCreate();
        equal(redis.bfInsert("options", existing, "b", "c"), List.of(false, true));
        refused(() -> redis.bfInsert("missing", existing, "a"), "ERR not found");
        var fixed = BFInsertParams.insertParams().capacity(1).nonScaling();
        equal(redis.bfInsert("once", fixed, "a"), List.of(true));
        refused(() -> redis.bfAdd("once", "b"), "ERR non scaling filter is full");
    }

    static void asks(JedisPooled redis) {
        equal(redis.bfExists("many", "text"), true);
        equal(redis.bfExists("many", "other"), false);
        equal(redis.bfExists("missing", "other"), false);
        equal(redis.bfMExists("many", "other", "", "text"), List.of(false, true, true));
        equal(redis.bfMExists("missing", "a", "b"), List.of(false, false));
        equal(redis.bfCard("many"), 2L);
        equal(redis.bfCard("missing"), 0L);
        equal(redis.bfInfo("added"), figures(100, 312, 1, 2));
        equal(redis.bfInfo("options"), figures(1000, 2040, 3, 4));
        refused(() -> redis.bfInfo("missing"), "ERR not found");
    }

    static void moves(JedisPooled redis) {
        var dumped = redis.bfScanDump("many", 0);
        while (dumped.getKey() != 0) {
            equal(redis.bfLoadChunk("copy", dumped.getKey(), dumped.getValue()), "OK");
            dumped = redis.bfScanDump("many", dumped.getKey());
        }
        equal(dumped.getValue().length, 0);
        equal(Arrays.equals(redis.dump("copy"), redis.dump("many")), true);
        byte[] nonsense = "nonsense".getBytes(StandardCharsets.UTF_8);
        refused(() -> redis.bfLoadChunk("bad", 1, nonsense), "ERR received bad data");
    }

    static Map<String, Object> figures(long capacity, long size, long items, long expansion) {
        return Map.of(
                "Capacity", capacity,
                "Size", size,
                "Number of filters", 1L,
                "Number of items inserted", items,
                "Expansion rate", expansion);
    }

    static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError(found + " instead of " + expected);
        }
    }

    static void refused(Runnable call, String text) {
        try {
            call.run();
        } catch (JedisDataException error) {
            equal(error.getMessage(), text);
            return;
        }
        throw new AssertionError("not refused: " + text);
    }
}
