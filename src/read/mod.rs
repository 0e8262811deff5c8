//! Reading files: located blocks, one block's data from one replica, failover, streams.
//!
//! A read picks a replica (`failover`), takes a connection (cached or new), runs one READ_BLOCK
//! operation on it (`block_reader`, decisions in `block_state`) and gives the connection back.
//! Everything runs on the calling thread.

mod block_reader;
mod block_state;
mod context;
mod failover;
mod input_stream;
mod located;
mod name_node;
mod nodes;
mod operation;
mod positional;
mod race;
mod receive;
mod recovery;
#[cfg(test)]
mod tests;

pub use context::{Locations, ReadContext, ReadStats};
pub use input_stream::{InputStream, ReadOptions};
pub use nodes::{Nodes, Standing};
