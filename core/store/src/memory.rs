//! placeholder
/// Keeps everything in memory.
pub struct MemoryStore;
