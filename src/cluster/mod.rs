//! Clusters: nodes that share one log through an external engine (ADR 35).
//!
//! | Module | Answers |
//! |---|---|
//! | [`generation`] | Where does the stream of the engine begin? |
//! | [`leave_marker`] | Has this data directory begun to end the shared log? |
//! | [`membership`] | May this data directory join, and are its secrets those of the cluster? |
//! | [`shared_location`] | Where are the files that all nodes use, and where does the latest generation begin? |
//! | [`shared_files`] | How does a mounted directory hold these files? |
//! | [`bucket_files`] | How does a bucket hold them? |
//! | [`presence`] | Which nodes are there, and which of them acts on events? |
//! | [`work_share`] | Which pieces of work does this node do? |
//! | [`read_barrier`] | Does this node have everything that others have answered? |
//!
//! The log itself is in [`events::shared`](crate::events::shared); [`app`](crate::app) puts the parts together.

pub mod bucket_files;
pub mod generation;
pub mod leave_marker;
pub mod membership;
pub mod presence;
pub mod read_barrier;
pub mod shared_files;
pub mod shared_location;
pub mod work_share;
