//! Small HTTP servers on this machine that play a program's API as far as oomdoctor uses it, including failures.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::fake_driver::PATIENCE;

/// How the server replies.
pub enum Reply {
    /// This status with this body.
    Says(u16, &'static str),
    /// A status with a computed body.
    Told(String),
    /// A redirect.
    Moved(String),
    /// Bytes that are not HTTP.
    Garbage,
    /// A body without end.
    Endless,
    /// Nothing; the connection stays open.
    Silence,
}

/// A received request: `POST /api/generate {"model":…}`, and the value of its Authorization header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub request: String,
    pub authorization: Option<String>,
}

pub struct ApiServer {
    pub port: u16,
    heard: Receiver<Heard>,
}

impl ApiServer {
    /// Answers each request as `answer` says.
    pub fn start(answer: impl FnMut(&str) -> Reply + Send + 'static) -> ApiServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, heard) = channel();
        let mut answer = answer;
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                let Some(request) = read(&stream) else { continue };
                let reply = answer(&request.request);
                let _ = sender.send(request);
                silent.extend(write(stream, reply));
            }
        });
        ApiServer { port, heard }
    }

    /// The requests since the last call.
    pub fn heard(&self) -> Vec<String> {
        self.heard.try_iter().map(|heard| heard.request).collect()
    }

    /// The next request; fails if none arrives in time.
    pub fn next(&self) -> Heard {
        self.heard.recv_timeout(PATIENCE).expect("no request")
    }
}

fn read(stream: &TcpStream) -> Option<Heard> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let (mut length, mut authorization) = (0, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let request = format!("{} {}", first.rsplit_once(' ')?.0, String::from_utf8_lossy(&body));
    Some(Heard { request: request.trim().to_owned(), authorization })
}

/// Returns the connection if it must stay open.
fn write(mut stream: TcpStream, reply: Reply) -> Option<TcpStream> {
    let whole = |status: u16, body: &str| {
        format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
    };
    let text = match reply {
        Reply::Says(status, body) => whole(status, body),
        Reply::Told(body) => whole(200, &body),
        Reply::Moved(to) => {
            format!("HTTP/1.1 307 X\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        Reply::Garbage => "SSH-2.0-OpenSSH_9.6\r\n".to_owned(),
        Reply::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 X\r\nConnection: close\r\n\r\n");
            while stream.write_all(&[b' '; 4096]).is_ok() {}
            return None;
        }
        Reply::Silence => return Some(stream),
    };
    let _ = stream.write_all(text.as_bytes());
    None
}
