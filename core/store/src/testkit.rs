//! The test kit
