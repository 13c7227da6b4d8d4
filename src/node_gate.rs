//! The gate of a node of a cluster: whether its handlers decide for visitors and record events. The log writer sets it, and
//! each request of a visitor reads it without a lock.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The reason for which a node acknowledges no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventRefusal {
    /// The directory has never been part of the cluster.
    NotJoined,
    /// Another machine or process has the name of this node.
    NameInUse,
}

/// The gate of a node. A new gate is closed.
#[derive(Debug)]
pub struct NodeGate {
    /// True if the profiles are recent enough to decide for a visitor.
    decides: AtomicBool,
    /// 0 if events are acknowledged, else the reason.
    refusal: AtomicU8,
}

impl Default for NodeGate {
    fn default() -> Self {
        let gate = Self { decides: AtomicBool::new(false), refusal: AtomicU8::new(0) };
        gate.set_refusal(Some(EventRefusal::NotJoined));
        gate
    }
}

impl NodeGate {
    /// Returns whether the node decides for visitors.
    pub fn decides(&self) -> bool {
        self.decides.load(Ordering::Relaxed)
    }

    /// Returns why the node acknowledges no event. `None`: it acknowledges events.
    pub fn refusal(&self) -> Option<EventRefusal> {
        match self.refusal.load(Ordering::Relaxed) {
            1 => Some(EventRefusal::NotJoined),
            2 => Some(EventRefusal::NameInUse),
            _ => None,
        }
    }

    pub fn set_decides(&self, decides: bool) {
        self.decides.store(decides, Ordering::Relaxed);
    }

    pub fn set_refusal(&self, refusal: Option<EventRefusal>) {
        let number = match refusal {
            None => 0,
            Some(EventRefusal::NotJoined) => 1,
            Some(EventRefusal::NameInUse) => 2,
        };
        self.refusal.store(number, Ordering::Relaxed);
    }
}
