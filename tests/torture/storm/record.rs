//! What a storm did to the server's memory and time: a line for each sample, and tables at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use super::Held;
use crate::client::{Client, Reply};
use crate::server::{Server, Version};

/// The figures of a line, by their names in INFO.
const FIGURES: [&str; 8] = [
    "used_memory",
    "used_memory_rss",
    "mem_fragmentation_ratio",
    "allocator_frag_ratio",
    "allocator_rss_ratio",
    "mem_clients_normal",
    "bf_filters",
    "bf_bytes",
];

/// The record.
pub struct Record {
    began: Instant,
    /// Commands that were answered.
    pub commands: usize,
    lines: String,
    /// Rounds that warm the server up; the last of them is what others are compared with.
    warm_up: usize,
    /// What was held after each round.
    rounds: Vec<Held>,
    /// The longest time of each command that the slow log had, in microseconds, how often it was there, and its first
    /// words when it took the longest.
    slow: BTreeMap<String, (i64, usize, String)>,
    most_used: i64,
    most_resident: u64,
}

impl Record {
    /// Begins it.
    pub fn begin(client: &mut Client, warm_up: usize) -> Self {
        // Before 7.0 the server has no percentiles.
        client.call(&[
            "CONFIG",
            "SET",
            "latency-tracking-info-percentiles",
            "50 99 99.9 100",
        ]);
        client.run("CONFIG SET slowlog-max-len 1000");
        Self {
            began: Instant::now(),
            commands: 0,
            lines: format!("commands,seconds,{},slowest_us,slowest\n", FIGURES.join(",")),
            warm_up,
            rounds: Vec::new(),
            slow: BTreeMap::new(),
            most_used: 0,
            most_resident: 0,
        }
    }

    /// A line of it, in the middle of a storm, `more` commands after what was counted.
    pub fn sample(&mut self, server: &Server, more: usize) {
        let mut client = server.client();
        let info = [client.run("INFO memory").text(), client.run("INFO bf").text()].concat();
        let value = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .unwrap_or("")
        };
        self.most_used = self.most_used.max(value("used_memory").parse().unwrap());
        self.most_resident = self.most_resident.max(server.resident());
        let figures = FIGURES.map(value).join(",");
        let seconds = self.began.elapsed().as_secs_f64();
        write!(self.lines, "{},{seconds:.1},{figures}", self.commands + more).unwrap();
        let (mut longest, mut name) = (0, String::new());
        for entry in client.run("SLOWLOG GET 1000").elements() {
            let [_, _, Reply::Int(time), words, ..] = entry.elements() else {
                panic!("no entry of the slow log: {entry:?}")
            };
            let said = words.elements().iter();
            let said: Vec<_> = said.map(|word| word.bytes().escape_ascii().to_string()).collect();
            let words: Vec<_> = words.elements().iter().take(2).map(Reply::text).collect();
            // The second word is what the command is only with the server's own.
            let command = words[0].to_uppercase();
            let known = ["DEBUG", "CONFIG", "MEMORY"].contains(&&command[..]);
            let command = if known {
                words.join(" ").to_uppercase()
            } else {
                command
            };
            let (most, count, words) = self.slow.entry(command.clone()).or_default();
            if *time > *most {
                *most = *time;
                *words = said.join(" ");
            }
            *count += 1;
            if *time > longest {
                (longest, name) = (*time, command);
            }
        }
        client.run("SLOWLOG RESET");
        writeln!(self.lines, ",{longest},{name}").unwrap();
    }

    /// What was held after a round.
    pub fn calm(&mut self, round: usize, held: Held) {
        let seconds = self.began.elapsed().as_secs_f64();
        eprintln!(
            "round {round}: {} commands, {seconds:.0} s; {held:?}",
            self.commands
        );
        self.rounds.push(held);
    }

    /// The tables, which go into files too if there is a `folder` for them.
    pub fn end(self, client: &mut Client, version: &str, seed: u64, folder: Option<&Path>) -> String {
        let seconds = self.began.elapsed().as_secs_f64();
        let mut text = format!(
            "{} commands in {seconds:.0} s on {version}, seed {seed}\n\
             at most: {} bytes used, {} resident\n\n\
             round      used  change    active  change  resident  change   (after everything was deleted)\n",
            self.commands, self.most_used, self.most_resident
        );
        let first = self.rounds[self.warm_up - 1];
        for (number, held) in self.rounds.iter().enumerate() {
            write!(text, "{number:5}").unwrap();
            for (now, first) in [
                (held.used as f64, first.used as f64),
                // Where none is told the change is no number.
                (held.active.unwrap_or(0) as f64, first.active.unwrap_or(0) as f64),
                (held.resident as f64, first.resident as f64),
            ] {
                write!(text, " {now:9.0} {:+6.2}%", 100.0 * (now / first - 1.0)).unwrap();
            }
            text += "\n";
        }
        text += "\ncommand                       calls  failed  mean us   p50 us   p99 us p99.9 us    max us   over 5 ms\n";
        let (calls, percentiles) = (client.run("INFO commandstats").text(), latencies(client));
        for line in calls.lines().filter_map(|line| line.strip_prefix("cmdstat_")) {
            let (name, figures) = line.split_once(':').unwrap();
            let figure = |name: &str| {
                let found = figures
                    .split(',')
                    .find_map(|figure| figure.strip_prefix(name)?.strip_prefix('='));
                found.unwrap_or("0")
            };
            let shown = name.replace('|', " ").to_uppercase();
            let (slowest, slow, _) = self.slow.get(&shown).cloned().unwrap_or_default();
            let found = percentiles.get(name).cloned().unwrap_or_default();
            let percentile = |at: &str| {
                found
                    .get(at)
                    .map_or("-".to_owned(), |value| format!("{value:.1}"))
            };
            let most = found.get("p100").copied().unwrap_or_default().max(slowest as f64);
            let failed: u64 = ["rejected_calls", "failed_calls"]
                .iter()
                .map(|name| figure(name).parse::<u64>().unwrap())
                .sum();
            writeln!(
                text,
                "{shown:26} {:>8} {failed:>7} {:>8} {:>8} {:>8} {:>8} {most:>9.1} {slow:>11}",
                figure("calls"),
                figure("usec_per_call"),
                percentile("p50"),
                percentile("p99"),
                percentile("p99.9"),
            )
            .unwrap();
        }
        text += "\nthe slowest of each, in their first words\n";
        for (time, _, words) in self.slow.values() {
            writeln!(text, "{time:>9} {}", &words[..words.len().min(400)]).unwrap();
        }
        if let Some(folder) = folder {
            fs::create_dir_all(folder).unwrap();
            let server = if Server::version().valkey {
                "valkey"
            } else {
                "redis"
            };
            let Version { major, minor, .. } = Server::version();
            let name = format!("{server}-{major}.{minor}-{seed}");
            fs::write(folder.join(format!("{name}.csv")), &self.lines).unwrap();
            fs::write(folder.join(format!("{name}.txt")), &text).unwrap();
        }
        text
    }
}

/// The percentiles of each command in microseconds, where the server has them.
fn latencies(client: &mut Client) -> BTreeMap<String, BTreeMap<String, f64>> {
    let text = client.run("INFO latencystats").text();
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("latency_percentiles_usec_")?.split_once(':'));
    let values = |text: &str| {
        let values = text.split(',').filter_map(|value| value.split_once('='));
        values
            .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
            .collect()
    };
    lines
        .map(|(name, text)| (name.to_owned(), values(text)))
        .collect()
}
