//! Reads against scripted DataNodes on loopback sockets.
mod failover;
mod happy;
mod lengths;
mod scripted;
