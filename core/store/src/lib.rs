//! The Store trait of Tidings, a memory store, and the test kit every store must pass
