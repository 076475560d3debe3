#include "tests/emulation/cupti/recorder.h"

#include <atomic>
#include <mutex>

#include "tests/emulation/cupti/buffers.h"
#include "tests/emulation/cupti/clock.h"
#include "tests/emulation/cupti/external_ids.h"
#include "tests/emulation/cupti/overheads.h"
#include "tests/emulation/cupti/records.h"
#include "tests/emulation/cupti/subscriber.h"
#include "tests/emulation/cupti/switches.h"

namespace emulation::cupti {

namespace {

/// The API call that this thread is in.
struct OpenCall {
  std::uint32_t correlation = 0;
  std::uint64_t begin = 0;
  bool recorded = false;
};

thread_local OpenCall open_call;

std::atomic<bool> event_times = false;

/// True for each N-th question, where N is the setting.
class EachNth {
 public:
  explicit EachNth(const char* name) : spacing_(static_cast<std::uint64_t>(setting(name, 0))) {}
  bool operator()() { return spacing_ != 0 && ++asked_ % spacing_ == 0; }

 private:
  std::uint64_t spacing_;
  std::atomic<std::uint64_t> asked_ = 0;
};

void write_external_ids(std::uint32_t correlation) {
  if (!switches().records(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) return;
  for (const auto& [kind, id] : external_ids()) buffers().write(external_record(kind, id, correlation));
}

void api_begins(const ApiRecord& call) {
  switches().call_began(call.correlation);
  tell_subscriber(call, CUPTI_API_ENTER);
  open_call = {call.correlation, now(), switches().records_call(call.domain, call.id)};
  if (open_call.recorded) write_external_ids(call.correlation);
}

void api_ended(const ApiRecord& call) {
  if (open_call.correlation == call.correlation && open_call.recorded && switches().records_call(call.domain, call.id)) {
    const std::uint64_t end = now();
    buffers().write(call_record(call, open_call.begin, end));
    if (const auto overhead = overhead_of_call(open_call.begin, end, call.correlation)) buffers().write(*overhead);
  }
  open_call = {};
  tell_subscriber(call, CUPTI_API_EXIT);
}

// CUPTI names both GPUs of a peer copy in the kind MEMCPY2 alone. EMULATED_PEER_COPIES_TWICE: where both kinds are enabled, in both;
// whether CUPTI does so is not documented.
void write_peer_copy(const WorkRecord& work) {
  static const bool twice = setting("PEER_COPIES_TWICE", 0) != 0;
  const bool named = switches().records_work(CUPTI_ACTIVITY_KIND_MEMCPY2, work.correlation);
  if (named) buffers().write_of_gpu(peer_copy_record(work));
  if ((!named || twice) && switches().records_work(CUPTI_ACTIVITY_KIND_MEMCPY, work.correlation)) buffers().write_of_gpu(copy_record(work));
}

void write_work(const WorkRecord& work) {
  switch (work.kind) {
    case WorkKind::kernel:
    case WorkKind::communication:
      return buffers().write_of_gpu(kernel_record(work));
    case WorkKind::copy:
      return buffers().write_of_gpu(copy_record(work));
    case WorkKind::peer_copy:
      return write_peer_copy(work);
    case WorkKind::fill:
      return buffers().write_of_gpu(fill_record(work));
    case WorkKind::host:
      return;
  }
}

bool is_recorded(const WorkRecord& work) {
  const auto records = [&](CUpti_ActivityKind kind) { return switches().records_work(kind, work.correlation); };
  switch (work.kind) {
    case WorkKind::kernel:
    case WorkKind::communication:
      return records(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    case WorkKind::copy:
      return records(CUPTI_ACTIVITY_KIND_MEMCPY);
    case WorkKind::peer_copy:
      return records(CUPTI_ACTIVITY_KIND_MEMCPY2) || records(CUPTI_ACTIVITY_KIND_MEMCPY);
    case WorkKind::fill:
      return records(CUPTI_ACTIVITY_KIND_MEMSET);
    case WorkKind::host:
      break;
  }
  return false;
}

void work_ended(const WorkRecord& work) {
  static EachNth is_lost("DROP_RECORDS");
  static EachNth is_without_times("ZERO_RECORDS");
  if (!is_recorded(work)) return;
  if (is_lost()) return buffers().drop();
  if (!is_without_times()) return write_work(work);
  WorkRecord timeless = work;
  timeless.begin = 0;
  timeless.end = 0;
  write_work(timeless);
}

// Records of waits come with those of events: they name the event's recording.
void event_recorded(const EventRecord& event) {
  const bool recorded = switches().records(CUPTI_ACTIVITY_KIND_CUDA_EVENT) || switches().records(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  if (recorded) buffers().write_of_gpu(event_record(event, event_times));
}

void waited(const WaitRecord& wait) {
  if (!switches().records(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) return;
  const std::uint64_t end = now();
  const bool in_call = open_call.correlation == wait.correlation && open_call.begin != 0;
  buffers().write(wait_record(wait, in_call ? open_call.begin : end, end));
}

}  // namespace

void attach() {
  static std::once_flag attached;
  std::call_once(attached, [] {
    static constexpr Observer observer{api_begins, api_ended, work_ended, event_recorded, waited};
    observe(&observer);
  });
}

void record_event_times(bool yes) {
  event_times = yes;
}

}  // namespace emulation::cupti
