//! Requests of an attacker: other hosts, other origins, no token, another user's cookie, names that contain HTML.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, Answer, Canned, form_token, shop, start, start_own, start_with};
use berth_dashboard::{FirstPage, Following};
use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const WEB: &str = "/ns/shop/deployments/web";

#[tokio::test(flavor = "multi_thread")]
async fn no_client_gets_anything_without_having_signed_in() {
    let running = start(shop()).await;
    running.page_with("/", &running.sign_in().await, "web").await;
    for path in ["/", WEB, "/nodes", "/quotas", "/ns/shop/deployments/web/undo"] {
        let answer = running.get(path, "").await;
        assert_eq!((answer.code, answer.header("location").unwrap().starts_with("/sign-in?next=")), (303, true), "{path}");
        assert_eq!(answer.body, "", "{path}");
    }
    for cookie in ["", "berth=1", &format!("berth-{}=AAAA", running.address.port()), "berth-1=AAAA; a=b"] {
        assert_eq!(running.get("/stream?page=/", cookie).await.code, 401, "{cookie}");
        assert_eq!(running.post("/ns/shop/deployments/web/undo", cookie, "form-token=x").await.code, 401, "{cookie}");
    }
    for path in ["/style.css", "/live.js", "/sign-in"] {
        let answer = running.get(path, "").await;
        assert!(answer.code == 200 && !answer.body.contains("6443"), "{path} tells nothing of the cluster");
    }
    assert_eq!(running.cluster.patches.lock().unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_leads_to_loopback_gets_nothing() {
    let running = start(shop()).await;
    let cookie = running.sign_in().await;
    let port = running.address.port();
    for host in [format!("evil.example:{port}"), "127.0.0.1".to_owned(), format!("127.0.0.1:{}", port ^ 1), String::new()] {
        let answer = running.send(&format!("GET / HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n")).await;
        assert_eq!(answer.code, 421, "{host}");
        assert!(!answer.body.contains("web"));
    }
    // A form through a proxy, with another host in the request line.
    let answer = running
        .send(&format!("GET http://evil.example/ HTTP/1.1\r\nhost: evil.example\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"))
        .await;
    assert_eq!(answer.code, 421);
    assert_eq!(running.get("/", &cookie).await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_works_once_for_a_minute_and_its_token_is_in_no_later_address() {
    let running = start(shop()).await;
    let path = running.path_of(&running.link);
    let first = running.get(&path, "").await;
    assert_eq!((first.code, goes_on_at(&first)), (303, "/".to_owned()));
    let attributes = first.header("set-cookie").unwrap();
    assert!(attributes.contains("HttpOnly") && attributes.contains("SameSite=Strict"), "{attributes}");
    assert_eq!(first.header("referrer-policy").as_deref(), Some("no-referrer"));
    let second = running.get(&path, "").await;
    assert_eq!((second.code, second.cookie()), (403, None));
    // A requested link is printed where berth runs, and is valid for a minute.
    let asked = running.post("/sign-in", "", "ask=1&next=/nodes").await;
    assert_eq!((asked.code, running.printed_links.lock().unwrap().len()), (200, 0), "one was made a moment ago");
    running.machine.set(700);
    assert_eq!(running.post("/sign-in", "", "ask=1&next=/nodes").await.code, 200);
    let link = running.printed_links.lock().unwrap().pop().unwrap();
    running.machine.set(761);
    assert_eq!(running.get(&running.path_of(&link), "").await.code, 403, "too late");
    assert_eq!(running.post("/sign-in", "", "ask=1").await.code, 200);
    let link = running.printed_links.lock().unwrap().pop().unwrap();
    let typed = running
        .post("/sign-in", "", &format!("next=%2Fnodes&token={}", link.replace(':', "%3A").replace('/', "%2F").replace('=', "%3D")))
        .await;
    assert_eq!((typed.code, goes_on_at(&typed)), (303, "/nodes".to_owned()), "one goes on where one wanted to");
    assert_eq!(running.get("/nodes", &typed.cookie().unwrap()).await.code, 200);
}

/// Returns the page after signing in, below the path of its session.
fn goes_on_at(signed_in: &Answer) -> String {
    let location = signed_in.header("location").unwrap();
    let (base, _) = location[1..].split_once('/').unwrap();
    assert!(signed_in.header("set-cookie").unwrap().contains(&format!("; Path=/{base};")), "{location}");
    location[1 + base.len()..].to_owned()
}

/// A browser sends a cookie to all ports of a host, but only below the cookie's path, which no other port knows.
#[tokio::test(flavor = "multi_thread")]
async fn the_cookie_is_for_a_path_that_no_other_port_knows() {
    let running = start(shop()).await;
    let signed_in = running.get(&running.path_of(&running.link), "").await;
    let (cookie, location) = (signed_in.cookie().unwrap(), signed_in.header("location").unwrap());
    let base = location.strip_suffix('/').unwrap();
    assert!(base.starts_with("/~") && 40 < base.len(), "{base}");
    let page = running.page_with(&location, &cookie, "web").await;
    assert!(page.contains(&format!(" href=\"{base}{WEB}\"")) && !page.contains("=\"/n"), "{page}");
    for other in ["/~", "/~AAAA", &format!("{base}A")] {
        let answer = running.get(&format!("{other}/nodes?a=b"), &cookie).await;
        assert_eq!(answer.header("location").as_deref(), Some("/sign-in?next=%2Fnodes%3Fa%3Db"), "{other}");
    }
    assert_eq!(running.get(&format!("{base}/stream?page=/"), "").await.code, 401);
    let token = form_token(&page);
    let out = running.post(&format!("{base}/sign-out"), &cookie, &format!("form-token={token}")).await;
    assert!(out.header("set-cookie").unwrap().contains(&format!("; Path={base};")), "it is taken away where it was set");
    assert_eq!(running.get(&location, &cookie).await.code, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_shut_no_reader_out() {
    let running = start(shop()).await;
    let cookie = running.sign_in().await;
    let mut strangers = Vec::new();
    for round in 0..4 {
        for _ in 0..100 {
            let mut stream = TcpStream::connect(running.address).await.unwrap();
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nx").await;
            strangers.push(stream);
        }
        let answer = timeout(common::PATIENCE / 6, running.get("/nodes", &cookie)).await;
        assert_eq!(answer.expect("at once").code, 200, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_do_not_make_the_owners_link_useless() {
    let running = start(shop()).await;
    running.machine.set(650);
    assert_eq!(running.post("/sign-in", "", "ask=1").await.code, 200);
    assert_eq!(running.printed_links.lock().unwrap().len(), 0, "the one that was printed works still");
    assert_eq!(running.get(&running.path_of(&running.link), "").await.code, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_link_opens_after_its_readers_own_sign_in() {
    let running = start(shop()).await;
    let stranger = running.get("/ns/shop/deployments/web?pods=2", "").await;
    let sign_in = stranger.header("location").unwrap();
    assert_eq!(sign_in, "/sign-in?next=%2Fns%2Fshop%2Fdeployments%2Fweb%3Fpods%3D2");
    let (_, token) = running.link.split_once("token=").unwrap();
    let signed_in = running.get(&format!("{sign_in}&token={token}"), "").await;
    assert_eq!(goes_on_at(&signed_in), "/ns/shop/deployments/web?pods=2");
    // A user with a session follows a link of another site. The browser repeats the request by itself, with the cookie.
    let host = running.address;
    let from_elsewhere = format!("GET {sign_in} HTTP/1.1\r\nhost: {host}\r\nsec-fetch-site: cross-site\r\nconnection: close\r\n\r\n");
    let answer = running.send(&from_elsewhere).await;
    assert!(answer.body.contains("http-equiv=\"refresh\" content=\"0;url=/sign-in?again&amp;next=%2Fns"), "{}", answer.body);
    let again = running.get(&sign_in.replace("?", "?again&"), &signed_in.cookie().unwrap()).await;
    assert_eq!(again.header("location").as_deref(), Some("/ns/shop/deployments/web?pods=2"));
    for evil in ["https://evil.example", "//evil.example", "/\\evil.example"] {
        let answer = running.get(&format!("/sign-in?next={evil}"), &signed_in.cookie().unwrap()).await;
        assert_eq!(answer.header("location").as_deref(), Some("/"), "{evil}");
    }
}

/// Signs in. Returns the cookie and the form token.
async fn reader(running: &common::Running) -> (String, String) {
    let cookie = running.sign_in().await;
    let page = running.page_with(WEB, &cookie, "Restart").await;
    let token = form_token(&page);
    (cookie, token)
}

fn is_untouched(running: &common::Running) -> bool {
    running.cluster.patches.lock().unwrap().is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_but_from_a_page_of_this_very_session() {
    let running = start(shop()).await;
    let (cookie, token) = reader(&running).await;
    let pause = format!("{WEB}/pause");
    let form = format!("form-token={token}&uid=d&generation=2");
    for method in ["GET", "HEAD", "PUT", "DELETE", "PATCH"] {
        let host = running.address;
        let origin = format!("origin: http://{host}");
        let answer = running
            .send(&format!("{method} {pause}?{form} HTTP/1.1\r\nhost: {host}\r\n{origin}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"))
            .await;
        assert!(is_untouched(&running), "{method}: {answer:?}");
    }
    let port = running.address.port();
    for origin in [
        "",
        "origin: null\r\n",
        "origin: http://evil.example\r\n",
        &format!("origin: http://127.0.0.1:{}\r\n", port ^ 1),
        &format!("origin: https://127.0.0.1:{port}\r\n"),
    ] {
        let answer = running.post_with(&pause, &cookie, &form, origin).await;
        assert_eq!((answer.code, is_untouched(&running)), (403, true), "{origin}");
    }
    let own = format!("origin: http://{}\r\n", running.address);
    let framed = running.post_with(&pause, &cookie, &form, &format!("{own}sec-fetch-site: same-site\r\n")).await;
    assert_eq!((framed.code, is_untouched(&running)), (403, true));
    for wrong in ["uid=d&generation=2", "form-token=&uid=d&generation=2", "form-token=AAAA&uid=d&generation=2"] {
        let answer = running.post(&pause, &cookie, wrong).await;
        assert_eq!((answer.code, is_untouched(&running)), (403, true), "{wrong}");
    }
    let other_kind = format!(
        "POST {pause} HTTP/1.1\r\nhost: {host}\r\n{own}cookie: {cookie}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{form}",
        host = running.address,
        length = form.len(),
    );
    let answer = running.send(&other_kind).await;
    assert_eq!((answer.code, is_untouched(&running)), (400, true), "a form of another kind");
    let done = running.post(&pause, &cookie, &form).await;
    assert_eq!((done.code, done.header("location").as_deref()), (303, Some("/ns/shop/deployments/web?done=pause")), "{done:?}");
    let patches = running.cluster.patches.lock().unwrap().clone();
    assert_eq!((patches.len(), &patches[0].1["spec"]["paused"], &patches[0].1["metadata"]["uid"]), (1, &true.into(), &"d".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_about_is_done_or_nothing() {
    let running = start(shop()).await;
    let (cookie, token) = reader(&running).await;
    let question = running.page_with(&format!("{WEB}/scale?replicas=5"), &cookie, "It scales from 3 pods to 5 pods.").await;
    assert!(question.contains("name=\"generation\" value=\"2\"") && is_untouched(&running), "only a question");
    for (uid, generation) in [("d", "1"), ("other", "2"), ("d", "")] {
        let answer = running
            .post(&format!("{WEB}/scale"), &cookie, &format!("form-token={token}&replicas=5&uid={uid}&generation={generation}"))
            .await;
        assert!(
            answer.code == 409 && answer.body.contains("another client has changed it") && is_untouched(&running),
            "{uid} {generation}: {answer:?}"
        );
    }
    let undo = running.page_with(&format!("{WEB}/undo"), &cookie, "It rolls back to the template of revision 1.").await;
    assert!(undo.contains("spec.containers[main].image: web:2&lt;img src=x onerror=alert(1)&gt; -&gt; web:1"), "{undo}");
    let answer = running.get(&format!("{WEB}/resume"), &cookie).await;
    assert!(answer.code == 409 && answer.body.contains("deployment/web is not paused"), "{answer:?}");
    let answer = running.post(&format!("{WEB}/scale"), &cookie, &format!("form-token={token}&replicas=5&uid=d&generation=2")).await;
    assert_eq!((answer.code, &running.cluster.patches.lock().unwrap()[0].1["spec"]["replicas"]), (303, &5.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_signs_out_is_out_and_so_are_their_streams() {
    let running = start(shop()).await;
    let (cookie, token) = reader(&running).await;
    let stream = running.stream_until("%2F", "", &cookie, "data: ").await;
    assert!(stream.contains("retry: "), "{stream}");
    assert_eq!(running.post("/sign-out", &cookie, &format!("form-token={token}")).await.code, 303);
    assert_eq!((running.get("/", &cookie).await.code, running.get("/stream?page=/", &cookie).await.code), (303, 401));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_of_an_earlier_process_is_worth_nothing() {
    // The random numbers of the tests would give both the same secrets.
    let (before, after) = (start(shop()).await, start_with(shop(), Following::AtOnce, FirstPage::Workloads, 100).await);
    let cookie = before.sign_in().await;
    after.sign_in().await;
    let stolen = cookie.replace(&before.address.port().to_string(), &after.address.port().to_string());
    assert_eq!(before.get("/", &cookie).await.code, 200);
    assert_eq!((after.get("/", &stolen).await.code, after.get("/stream?page=/", &stolen).await.code), (303, 401));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_requested_before_a_user_signs_in_and_the_sign_in_leads_to_what_needs_attention() {
    let running = start_own(shop()).await;
    for path in ["/", WEB, "/sign-in", "/stream?page=/", "/sign-in?token=AAAA"] {
        running.get(path, "").await;
    }
    assert_eq!(running.cluster.asked.load(Ordering::SeqCst), 0);
    let first = running.get(&running.path_of(&running.link), "").await;
    assert_eq!((first.code, goes_on_at(&first)), (303, WEB.to_owned()), "it is stuck");
    assert!(0 < running.cluster.asked.load(Ordering::SeqCst));
    let page = running.get(WEB, &first.cookie().unwrap()).await;
    assert!(page.body.contains("– web-2-d cannot pull its image"), "{}", page.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_all_is_complete_or_there_is_nothing_one_comes_to_all_workloads() {
    let (nothing, complete) = (Canned::new(&[]), Canned::new(&[]));
    complete.put("statefulsets", shop().find("statefulsets", common::EVIL));
    for cluster in [nothing, complete] {
        let running = start_own(cluster).await;
        assert_eq!(goes_on_at(&running.get(&running.path_of(&running.link), "").await), "/");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_wanted_a_page_comes_to_that_one() {
    let running = start_own(shop()).await;
    let path = format!("{}&next=%2Fnodes", running.path_of(&running.link));
    assert_eq!(goes_on_at(&running.get(&path, "").await), "/nodes");
}

/// Neither a silent client nor one with an incomplete head or form delays the shutdown.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_waits_for_no_stranger() {
    let running = start(shop()).await;
    let host = running.address;
    let mut strangers = Vec::new();
    let form =
        format!("POST /sign-in HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\ncontent-type: application/x-www-form-urlencoded\r\n");
    for said in ["", "GET / HTTP/1.1\r\nhost:", &format!("{form}content-length: 10\r\n\r\nto")] {
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        strangers.push(stream);
    }
    // The server is handling each of them.
    assert_eq!(running.get("/style.css", "").await.code, 200);
    let common::Running { stop, serving, .. } = running;
    let begun = Instant::now();
    stop.send(()).unwrap();
    timeout(common::PATIENCE, serving).await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(TcpStream::connect(host).await.is_err(), "the server does not listen any more");
}

/// A shutdown does not wait for streams, and completes the responses in progress.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_takes_the_streams_with_it() {
    let running = start(shop()).await;
    let cookie = running.sign_in().await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let head = format!("GET /stream?page=%2F HTTP/1.1\r\nhost: {}\r\ncookie: {cookie}\r\n\r\n", running.address);
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut buffer = [0; 12];
    stream.read_exact(&mut buffer).await.unwrap();
    assert_eq!(&buffer, b"HTTP/1.1 200");
    let common::Running { stop, serving, .. } = running;
    stop.send(()).unwrap();
    timeout(common::PATIENCE, serving).await.unwrap().unwrap();
    let mut rest = Vec::new();
    timeout(common::PATIENCE, stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    // A complete chunked response ends with these bytes.
    let text = String::from_utf8_lossy(&rest);
    assert!(text.ends_with("0\r\n\r\n"), "it was cut off: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_forbids_what_a_page_does_not_need() {
    let running = start(shop()).await;
    let cookie = running.sign_in().await;
    let check = |answer: Answer, of: &str| {
        let policy = answer.header("content-security-policy").unwrap();
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "frame-ancestors 'none'",
            "form-action 'self'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(rule), "{of}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        let headers =
            ["cache-control", "referrer-policy", "x-content-type-options", "x-frame-options"].map(|name| answer.header(name).unwrap());
        assert_eq!(headers, ["no-store", "no-referrer", "nosniff", "DENY"], "{of}");
    };
    for path in ["/", WEB, "/nodes", "/quotas", "/style.css", "/live.js", "/sign-in", "/nothing"] {
        check(running.get(path, &cookie).await, path);
    }
    check(running.get("/", "").await, "a stranger");
    check(running.post("/sign-out", &cookie, "").await, "a refusal");
    check(running.send("GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").await, "another host");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_carry_html_are_shown_as_they_are() {
    let running = start(common::shop_of(&["persistentvolumeclaims"])).await;
    let cookie = running.sign_in().await;
    running.page_with("/", &cookie, "is forbidden: &lt;b&gt;no&lt;/b&gt;").await;
    let evil = "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E";
    let paths = [
        "/",
        "/?q=%22%3E%3Cimg%20src%3Dx%3E&namespace=%3Cimg%20src%3Dx%3E",
        WEB,
        &format!("/ns/shop/statefulsets/{evil}"),
        "/nodes",
        "/nodes/node-1",
        "/quotas",
    ];
    for path in paths
        .iter()
        .map(|path| (*path).to_owned())
        .chain(["undo", "restart", "set-image", "scale", "promote"].map(|verb| format!("{WEB}/{verb}")))
    {
        let page = running.get(&path, &cookie).await.body;
        assert!(!page.contains("<img") && !page.contains("<as>") && !page.contains("<b>no"), "{path}");
        assert!(!page.contains(" style=\""), "{path}");
    }
    let page = running.page_with(WEB, &cookie, "web:2&lt;img").await;
    assert!(page.contains("cannot pull &lt;img src=x onerror=alert(1)&gt;"), "{page}");
    let stream = running.stream_until(WEB, "", &cookie, "picture").await;
    assert!(!stream.contains("<img"), "{stream}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_refused_and_what_is_too_many_waits() {
    let running = start(Canned::new(&[])).await;
    let cookie = running.sign_in().await;
    let page = running.page_with("/", &cookie, "form-token").await;
    let large = format!("form-token={}&x={}", form_token(&page), "a".repeat(20 << 10));
    assert_eq!(running.post("/sign-out", &cookie, &large).await.code, 400);
    assert_eq!(running.get("/", &cookie).await.code, 200, "nothing was done");
    let long = format!("GET / HTTP/1.1\r\nhost: {}\r\nx: {}\r\nconnection: close\r\n\r\n", running.address, "a".repeat(64 << 10));
    assert_eq!(running.send(&long).await.code, 431);
}
