//! A client that hides nothing: it sends bytes, and returns each reply as it arrived.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::server::{Server, or_slower};

/// How long a server may stay silent before a test assumes that it hangs. Nothing is measured with it.
const SILENCE: Duration = Duration::from_secs(120);

/// One reply of RESP2 or RESP3. Nulls of every form are one value, and so are sets and arrays.
#[derive(Clone, PartialEq)]
pub enum Reply {
    Simple(String),
    Error(String),
    Int(i64),
    Double(f64),
    Bool(bool),
    Null,
    Bulk(Vec<u8>),
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    Push(Vec<Reply>),
}

/// The error for a key that holds another type.
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// The error for a wrong number of arguments of a command that was typed in capitals: Redis 6.2 repeats the name as
/// it was typed, later servers as it was registered.
pub fn arity(command: &str) -> String {
    let command = if Server::version().at_least(7, 0) {
        command.to_lowercase()
    } else {
        command.to_uppercase()
    };
    format!("ERR wrong number of arguments for '{command}' command")
}

/// Closes a connection, which the other side may have closed already.
pub fn end(line: &TcpStream) {
    let _already_ended = line.shutdown(Shutdown::Both);
}

/// The reply `+OK`.
pub fn ok() -> Reply {
    Reply::Simple("OK".into())
}

/// The error whose whole line is `text`.
pub fn error(text: &str) -> Reply {
    Reply::Error(text.into())
}

/// The bulk string of some bytes.
pub fn bulk(bytes: impl AsRef<[u8]>) -> Reply {
    Reply::Bulk(bytes.as_ref().to_vec())
}

/// An array of values that can be converted to replies.
pub fn array<T: Into<Reply>>(elements: impl IntoIterator<Item = T>) -> Reply {
    Reply::Array(elements.into_iter().map(Into::into).collect())
}

impl From<i64> for Reply {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

/// A module's boolean in RESP3; the integer of RESP2 where modules have no booleans.
impl From<bool> for Reply {
    fn from(value: bool) -> Self {
        if Server::version().modules_have_resp3() {
            Self::Bool(value)
        } else {
            Self::Int(value.into())
        }
    }
}

impl Reply {
    /// The elements of an array or a push.
    pub fn elements(&self) -> &[Self] {
        match self {
            Self::Array(elements) | Self::Push(elements) => elements,
            other => panic!("not an array: {other:?}"),
        }
    }

    /// The number in an integer, a boolean, a double, or a text that spells one.
    pub fn number(&self) -> f64 {
        match self {
            Self::Int(value) => *value as f64,
            Self::Bool(value) => f64::from(u8::from(*value)),
            Self::Double(value) => *value,
            other => other
                .text()
                .parse()
                .unwrap_or_else(|_| panic!("not a number: {other:?}")),
        }
    }

    /// The value of an integer reply, and of no other type.
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(value) => *value,
            other => panic!("not an integer: {other:?}"),
        }
    }

    /// The text of a simple or a bulk string.
    pub fn text(&self) -> String {
        match self {
            Self::Simple(text) => text.clone(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("not a text: {other:?}"),
        }
    }

    /// The bytes of a bulk string.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Bulk(bytes) => bytes,
            other => panic!("not a bulk string: {other:?}"),
        }
    }

    /// The names and values of a RESP3 map, or of its flat array in RESP2.
    pub fn fields(&self) -> Vec<(String, Self)> {
        match self {
            Self::Map(pairs) => pairs
                .iter()
                .map(|(name, value)| (name.text(), value.clone()))
                .collect(),
            Self::Array(flat) => {
                assert_eq!(flat.len() % 2, 0, "a name without a value: {self:?}");
                flat.chunks(2)
                    .map(|pair| (pair[0].text(), pair[1].clone()))
                    .collect()
            }
            other => panic!("not a map: {other:?}"),
        }
    }

    /// Whether it has the form of a module's map in RESP3, which is that of RESP2 where modules have no maps.
    pub fn is_map(&self) -> bool {
        if Server::version().modules_have_resp3() {
            matches!(self, Self::Map(_))
        } else {
            matches!(self, Self::Array(_))
        }
    }

    /// The value of one field of a map.
    pub fn field(&self, name: &str) -> Self {
        let found = self.fields().into_iter().find(|(field, _)| field == name);
        found.unwrap_or_else(|| panic!("no field {name}: {self:?}")).1
    }

    /// Reads one reply; an end of the stream before its first byte is `None`.
    pub fn read(stream: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = Vec::new();
        if stream.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let malformed = || io::Error::other(format!("malformed: {:?}", line.escape_ascii().to_string()));
        let line = line.strip_suffix(b"\r\n").ok_or_else(malformed)?;
        let (&kind, rest) = line.split_first().ok_or_else(malformed)?;
        let rest = String::from_utf8_lossy(rest).into_owned();
        let length = || rest.parse::<i64>().map_err(|_| malformed());
        let mut next = || Self::read(stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into());
        Ok(Some(match kind {
            b'+' => Self::Simple(rest),
            b'-' => Self::Error(rest),
            b':' => Self::Int(length()?),
            b',' => Self::Double(rest.parse().map_err(|_| malformed())?),
            b'#' if rest == "t" || rest == "f" => Self::Bool(rest == "t"),
            b'_' if rest.is_empty() => Self::Null,
            b'$' | b'*' if rest == "-1" => Self::Null,
            b'$' | b'=' => {
                let mut bytes = vec![0; usize::try_from(length()?).map_err(|_| malformed())? + 2];
                stream.read_exact(&mut bytes)?;
                Self::Bulk(bytes.strip_suffix(b"\r\n").ok_or_else(malformed)?.to_vec())
            }
            b'*' | b'~' => Self::Array((0..length()?).map(|_| next()).collect::<io::Result<_>>()?),
            b'>' => Self::Push((0..length()?).map(|_| next()).collect::<io::Result<_>>()?),
            b'%' => Self::Map(
                (0..length()?)
                    .map(|_| Ok((next()?, next()?)))
                    .collect::<io::Result<_>>()?,
            ),
            _ => return Err(malformed()),
        }))
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) => write!(f, "+{text}"),
            Self::Error(text) => write!(f, "-{text}"),
            Self::Int(value) => write!(f, ":{value}"),
            Self::Double(value) => write!(f, ",{value}"),
            Self::Bool(value) => write!(f, "#{value}"),
            Self::Null => f.write_str("null"),
            Self::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::Array(elements) => f.debug_list().entries(elements).finish(),
            Self::Map(pairs) => f.debug_map().entries(pairs.iter().map(|(k, v)| (k, v))).finish(),
            Self::Push(elements) => write!(f, ">{elements:?}"),
        }
    }
}

/// A connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// A connection that speaks RESP2.
    pub fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(or_slower(SILENCE)))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// A handle of the connection, for a thread that ends it while another one waits for a reply.
    pub fn line(&self) -> TcpStream {
        self.stream.get_ref().try_clone().unwrap()
    }

    /// Sends a command without waiting for its reply.
    pub fn send<A: AsRef<[u8]>>(&mut self, command: &[A]) -> io::Result<()> {
        self.send_bytes(&wire(command))
    }

    /// Sends bytes that need not be a whole command.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Waits for the next reply.
    pub fn receive(&mut self) -> io::Result<Reply> {
        Reply::read(&mut self.stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Runs a command of byte arguments.
    pub fn call<A: AsRef<[u8]>>(&mut self, command: &[A]) -> Reply {
        let reply = self.send(command).and_then(|()| self.receive());
        reply.unwrap_or_else(|why| {
            let words: Vec<_> = command
                .iter()
                .map(|word| word.as_ref().escape_ascii().to_string())
                .collect();
            panic!("no reply to {words:?}: {why}")
        })
    }

    /// Runs a command written as a line: the arguments are separated by spaces, and `''` is the empty one.
    pub fn run(&mut self, line: &str) -> Reply {
        self.call(&words(line))
    }

    /// Runs many commands written as lines, some hundred of them in one go.
    pub fn pipeline(&mut self, lines: impl IntoIterator<Item = String>) -> Vec<Reply> {
        let lines: Vec<_> = lines.into_iter().collect();
        self.calls(&lines.iter().map(|line| words(line)).collect::<Vec<_>>())
    }

    /// Runs many commands of byte arguments, some hundred of them in one go.
    pub fn calls<A: AsRef<[u8]>>(&mut self, commands: &[Vec<A>]) -> Vec<Reply> {
        let mut replies = Vec::with_capacity(commands.len());
        for some in commands.chunks(500) {
            let bytes: Vec<_> = some.iter().flat_map(|command| wire(command)).collect();
            self.send_bytes(&bytes).unwrap();
            replies.extend(some.iter().map(|_| self.receive().unwrap()));
        }
        replies
    }

    /// Runs a command over many items: `head`, then the items.
    pub fn over<A: AsRef<[u8]>>(&mut self, head: &str, items: &[A]) -> Reply {
        let head = words(head);
        let head = head.iter().map(|word| word.as_bytes());
        self.call(&head.chain(items.iter().map(AsRef::as_ref)).collect::<Vec<_>>())
    }

    /// The whole value of a key, bit for bit; null if the key is missing.
    pub fn dump(&mut self, key: &str) -> Reply {
        self.call(&["DUMP", key])
    }

    /// One number of BF.INFO.
    pub fn info(&mut self, key: &str, field: &str) -> i64 {
        self.call(&["BF.INFO", key]).field(field).int()
    }

    /// One value of the server's INFO.
    pub fn stat(&mut self, section: &str, name: &str) -> String {
        figure(&self.call(&["INFO", section]).text(), name)
    }

    /// Bytes of memory that the server counts as used.
    pub fn used_memory(&mut self) -> i64 {
        self.stat("memory", "used_memory").parse().unwrap()
    }

    /// Asserts that every command of the table gets its reply.
    pub fn answers(&mut self, table: &[(&str, Reply)]) {
        for (line, expected) in table {
            assert_eq!(&self.run(line), expected, "{line}");
        }
    }

    /// Asserts that every command of the table gets exactly its error, and leaves `key` unchanged.
    pub fn refuses(&mut self, key: &str, table: &[(&str, &str)]) {
        let before = self.dump(key);
        for (line, text) in table {
            assert_eq!(self.run(line), error(text), "{line}");
            assert_eq!(self.dump(key), before, "the key changed: {line}");
        }
    }
}

/// The server's clock in milliseconds.
pub fn clock(client: &mut Client) -> i64 {
    let time = client.run("TIME");
    let [seconds, micros] = [0, 1].map(|at| time.elements()[at].text().parse::<i64>().unwrap());
    seconds * 1000 + micros / 1000
}

/// One value in a text of INFO.
pub fn figure(info: &str, name: &str) -> String {
    let value = info
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value
        .unwrap_or_else(|| panic!("INFO without {name}:\n{info}"))
        .to_owned()
}

/// The bytes of a command.
pub fn wire<A: AsRef<[u8]>>(command: &[A]) -> Vec<u8> {
    let mut wire = format!("*{}\r\n", command.len()).into_bytes();
    for argument in command {
        let argument = argument.as_ref();
        wire.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        wire.extend_from_slice(argument);
        wire.extend_from_slice(b"\r\n");
    }
    wire
}

/// The words of a line, in which `''` is an empty one.
pub fn words(line: &str) -> Vec<&str> {
    line.split(' ')
        .filter(|word| !word.is_empty())
        .map(|word| if word == "''" { "" } else { word })
        .collect()
}
