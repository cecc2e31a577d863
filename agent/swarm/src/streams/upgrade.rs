//! Agreeing on what a new stream is for.

use core::convert::Infallible;
use core::future::{Ready, ready};

use libp2p::Stream;
use libp2p::core::upgrade::{InboundUpgrade, OutboundUpgrade, UpgradeInfo};

use super::Kind;

/// The kinds that are offered, or the one that is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named(pub(crate) &'static [Kind]);

impl UpgradeInfo for Named {
    type Info = &'static str;
    type InfoIter = Vec<&'static str>;

    fn protocol_info(&self) -> Self::InfoIter {
        self.0.iter().map(|kind| kind.name()).collect()
    }
}

impl InboundUpgrade<Stream> for Named {
    type Output = (Kind, Stream);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_inbound(self, stream: Stream, name: &'static str) -> Self::Future {
        // Only names from `protocol_info` are agreed on; hello is the kind that opens nothing.
        ready(Ok((Kind::of_name(name).unwrap_or(Kind::Hello), stream)))
    }
}

impl OutboundUpgrade<Stream> for Named {
    type Output = Stream;
    type Error = Infallible;
    type Future = Ready<Result<Stream, Infallible>>;

    fn upgrade_outbound(self, stream: Stream, _name: &'static str) -> Self::Future {
        ready(Ok(stream))
    }
}
