#![no_main]

libfuzzer_sys::fuzz_target!(init: berth_fuzz::objects::warm_up(), |data: &[u8]| berth_fuzz::webhook_answers::run(data));
