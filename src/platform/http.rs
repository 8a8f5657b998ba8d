//! Owns how servers of this machine are asked over HTTP, and no others: no proxy, no redirect, no compression, a time-out and a
//! cap on what is read. Who may be asked what is not known here.

use std::io::Read;
use std::time::Duration;

use ureq::http::Response;
use ureq::{Agent, Body, Error};

/// One whose requests end after this time in all.
pub(crate) fn agent(time_out: Duration) -> Agent {
    let config = Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .timeout_global(Some(time_out))
        .user_agent(concat!("oomdoctor/", env!("CARGO_PKG_VERSION")));
    config.build().into()
}

/// The body, up to so many bytes.
pub(crate) fn body(answer: &mut Response<Body>, most: u64) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    answer.body_mut().as_reader().take(most).read_to_end(&mut body)?;
    Ok(body)
}
