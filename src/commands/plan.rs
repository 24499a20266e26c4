//! `BF.PLAN error_rate capacity [option ...]`, with the options of [`Given`].

use std::ffi::CStr;

use crate::call::docs::{Docs, OPTIONS, SINCE_OWN, SIZED};
use crate::call::given::{Given, Verb};
use crate::call::{Call, Command, CommandError, Cursor, Reply};
use crate::options;
use crate::server::few;
use libbloom::plan;

pub struct Plan;

/// The stages of the reply, in multiples of the filter's capacity.
const GROWTHS: [u64; 3] = [1, 10, 1000];
/// The most layers of a stage in the reply. Sizing more would stop the server, and nobody should have such a filter.
/// An expansion of 2 or more reaches the last stage with 10 layers.
const MOST_LAYERS: usize = 16;

impl Command for Plan {
    const NAME: &'static CStr = c"bf.plan";
    const FLAGS: &'static CStr = c"readonly";
    const DOCS: Docs = Docs {
        summary: c"Returns what a Bloom Filter takes that BF.RESERVE would create, and once it has grown",
        complexity: c"O(1)",
        since: SINCE_OWN,
        parameters: &[SIZED, OPTIONS],
    };

    fn run(Call { ctx, arguments }: Call<'_>) -> Result<(), CommandError> {
        let given = Given::parse(Verb::Plan, &mut Cursor::new(arguments))?;
        let config = options::config();
        let spec = given.filter(&config)?;
        given.check_goal(spec, &config)?;
        let counts = GROWTHS.map(|times| spec.capacity().saturating_mul(times));
        let plan = plan::Plan::new(spec, counts[GROWTHS.len() - 1], MOST_LAYERS);
        let stages = few(counts.iter().map_while(|&items| plan.at(items)));
        let first = plan.layers().first();
        let expansion = spec.expansion().map(u64::from);
        // A window drops layers, and has no such number.
        let most_items = (!spec.has_window()).then(|| spec.most_items());
        let reply = Reply(ctx);
        reply.map(8);
        reply.field("Capacity").integer(spec.capacity());
        reply.field("Error rate").double(spec.error_rate());
        reply.field("Expansion rate").integer_if_any(expansion);
        reply.field("Layout").bulk(spec.layout().name().as_bytes());
        let lines = first.and_then(|layer| layer.lines_per_item);
        reply.field("Lines").integer_if_any(lines);
        let probes = first.map(|layer| layer.probes);
        reply.field("Probes").integer_if_any(probes);
        reply.field("Most items").integer_if_any(most_items);
        reply.field("Stages").array(stages.len());
        for stage in stages {
            reply.map(5);
            reply.field("Items").integer(stage.items);
            reply.field("Size").integer(stage.bytes);
            reply.field("Number of filters").integer(stage.layers as u64);
            reply.field("Bits per item").double(stage.bits_per_item());
            reply.field("Error rate").double(stage.error_rate);
        }
        Ok(())
    }
}
