//! Reads against scripted DataNodes on loopback sockets.
mod failover;
mod flips;
mod happy;
mod lengths;
mod race;
mod scripted;
mod shared;
