//! Log lines and greeting about a full disk. The service logs one line when the disk becomes full and one when space is
//! available again, however many requests fail in between.

use super::*;

const FULL: &str = "disk full, changes rejected";
const OVER: &str = "disk space available again, changes accepted";

fn count(log: &str, text: &str) -> usize {
    log.lines().filter(|line| line.contains(text)).count()
}

#[actix_web::test]
async fn a_full_disk_is_logged_once() {
    let Some(disk) = SmallDisk::mount(40) else {
        eprintln!("SKIPPED: no small file system can be mounted here");
        return;
    };
    let service = LimitedService::start(&disk.path("data"), 4);
    let ready = async || service.send(service.request(Method::GET, "/ready")).await.0;
    assert_eq!(ready().await, 200);

    // When the disk is full, then the log reports it without any request
    disk.fill();
    eventually_blocking("the full disk is logged", || count(&service.process.log_text(), FULL) == 1);

    // And probes add no further lines, over several checks
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(2500) {
        assert_eq!(ready().await, 503);
    }

    // When there is space again, then the log reports that too
    disk.empty();
    eventually_blocking("the end of the shortage is logged", || count(&service.process.log_text(), OVER) == 1);
    assert_eq!(ready().await, 200);
    let (_, log) = service.process.terminate();
    assert_eq!((count(&log, FULL), count(&log, OVER), count(&log, "not ready")), (1, 1, 0), "{log}");
}

#[actix_web::test]
async fn a_start_on_a_full_disk_reports_only_that() {
    let Some(disk) = SmallDisk::mount(40) else {
        eprintln!("SKIPPED: no small file system can be mounted here");
        return;
    };
    let data = disk.path("data");
    let service = LimitedService::start(&data, 4);
    service.fill_registry().await;
    for nth in 1..40 {
        assert_eq!(service.write(nth).await.0, 200);
    }
    assert!(!service.process.printed().contains("warning"), "{}", service.process.printed());
    service.process.terminate();
    disk.fill();

    // When the service starts on the full disk, without using the reserve
    let service = LimitedService::start(&data, 30);

    // Then greeting and log report a full disk, and no damage
    let greeting = service.process.printed().to_owned();
    assert!(greeting.contains("warning changes are rejected: disk full"), "{greeting}");
    eventually_blocking("the full disk is logged", || count(&service.process.log_text(), FULL) == 1);
    assert!(!greeting.contains("damage"), "{greeting}");
    let index = "found   an index that could not be opened (disk full), rebuilt from the journal";
    assert!(greeting.contains(index), "{greeting}");
    service.check_reads(39).await;
    let (_, log) = service.process.terminate();
    assert!(!log.contains("damage"), "{log}");
}
