//! A primary that is played: it sends what a test has recorded or written.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::payload::rdb_file;
use crate::client::{Reply, ok};
use crate::server::{Server, until};

/// A primary that is played.
pub struct Primary {
    pub port: u16,
    /// Bytes that it sends.
    pub sent: usize,
}

impl Primary {
    /// Sends these commands to whoever follows it.
    pub fn of(commands: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let primary = Self {
            port: listener.local_addr().unwrap().port(),
            sent: commands.len(),
        };
        thread::spawn(move || {
            for line in listener.incoming() {
                // A replica that has all it wants closes the connection.
                let _closed = Self::serve(&mut line.unwrap(), &commands);
            }
        });
        primary
    }

    fn serve(line: &mut TcpStream, commands: &[u8]) -> std::io::Result<()> {
        let mut requests = BufReader::new(line.try_clone()?);
        while let Some(request) = Reply::read(&mut requests)? {
            match &*request.elements()[0].text().to_uppercase() {
                "PING" => line.write_all(b"+PONG\r\n")?,
                "PSYNC" => {
                    let file = rdb_file([]);
                    write!(line, "+FULLRESYNC {} 0\r\n${}\r\n", "e".repeat(40), file.len())?;
                    line.write_all(&file)?;
                    line.write_all(commands)?;
                }
                // What it confirms is not answered.
                _ if request.elements()[1].text().eq_ignore_ascii_case("ACK") => {}
                _ => line.write_all(b"+OK\r\n")?,
            }
        }
        Ok(())
    }

    /// Makes a server follow it, until it has all commands. That is not written into the server's configuration, which
    /// would make it follow again when it is started again.
    pub fn lead(&self, server: &Server) {
        let mut client = server.client();
        client.answers(&[(&format!("REPLICAOF 127.0.0.1 {}", self.port), ok())]);
        until("the replica has the stream", || {
            client.stat("replication", "slave_repl_offset") == self.sent.to_string()
        });
    }
}
