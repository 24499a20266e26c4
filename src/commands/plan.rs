//! `BF.PLAN error_rate capacity [EXPANSION n] [NONSCALING] [GROWING] [SEED s] [LAYOUT l]
//! [TIGHTENING t] [VALIDATESCALETO n] [WINDOW s [SLICES n] [REFRESH]]`

use std::ffi::CStr;

use super::args::Cursor;
use super::creation::FilterSpec;
use super::docs::{Docs, SINCE_OWN};
use super::error::CommandError;
use super::reply::Reply;
use super::reserve::{self, Description};
use super::{Call, Command};
use crate::bloom::plan::{self, Stage};
use crate::server::alloc;
use crate::{datatype, options};

/// What the filter that BF.RESERVE would make of these arguments takes, at once and after it grew.
pub struct Plan;

/// How many times its capacity a filter holds in the stages that are told.
const GROWTHS: [u64; 3] = [1, 10, 1000];
/// A stage of more layers is not told: the server would stand still while they are sized, and nobody should have
/// such a filter. Any expansion of 2 or more gets to the last stage with 10 layers.
const MOST_LAYERS: usize = 16;

impl Command for Plan {
    const NAME: &'static CStr = c"bf.plan";
    const FLAGS: &'static CStr = c"readonly fast";
    const CATEGORIES: &'static CStr = c"read fast";
    const DOCS: Docs = Docs {
        summary: c"Returns what a Bloom Filter takes that BF.RESERVE would create, and once it has grown",
        complexity: c"O(1)",
        since: SINCE_OWN,
        parameters: reserve::DESCRIPTION,
        cacheable: true,
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let described = Description::parse(Cursor::new(arguments), |_, _| Ok(false))?;
        let spec = described.checked(&options::config())?;
        let counts = GROWTHS.map(|times| spec.capacity().saturating_mul(times));
        let plan = spec.plan(counts[GROWTHS.len() - 1], MOST_LAYERS);
        let stages: Vec<_> = counts.iter().map_while(|&items| plan.at(items)).collect();
        tell(Reply(ctx), spec, &plan, &stages);
        Ok(())
    }
}

fn tell(reply: Reply<'_>, spec: FilterSpec, plan: &plan::Plan, stages: &[Stage]) {
    let first = plan.layers().first();
    reply.map(7);
    reply.bulk(b"Capacity");
    reply.integer(spec.capacity());
    reply.bulk(b"Error rate");
    reply.double(spec.error_rate());
    reply.bulk(b"Expansion rate");
    reply.integer_if_any(spec.expansion().map(u64::from));
    reply.bulk(b"Layout");
    reply.bulk(spec.layout().name().as_bytes());
    reply.bulk(b"Lines");
    reply.integer_if_any(first.and_then(|layer| layer.lines()));
    reply.bulk(b"Probes");
    reply.integer_if_any(first.map(|layer| layer.probes()));
    reply.bulk(b"Stages");
    reply.array(stages.len());
    for stage in stages {
        reply.map(6);
        reply.bulk(b"Items");
        reply.integer(stage.items);
        reply.bulk(b"Size");
        reply.integer(stage.bytes);
        reply.bulk(b"Memory");
        reply.integer(memory(plan, stage));
        reply.bulk(b"Number of filters");
        reply.integer(stage.layers as u64);
        reply.bulk(b"Bits per item");
        reply.double(stage.bits_per_item());
        reply.bulk(b"Error rate");
        reply.double(stage.error_rate);
    }
}

/// Bytes that the server will account for such a filter: what its allocator takes for each block.
fn memory(plan: &plan::Plan, stage: &Stage) -> u64 {
    let mut bytes = datatype::SERVER_HEADERS as u64;
    plan.each_block(stage, |block| bytes = bytes.saturating_add(alloc::taken(block)));
    bytes
}
