#include "profiler/trace/collect/cupti_collector.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>

#include "profiler/base/error.h"
#include "profiler/trace/collect/cupti_api.h"
#include "profiler/trace/collect/cupti_buffers.h"

namespace mptune::profiler {
namespace {

constexpr std::array kKinds{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                            CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                            CUPTI_ACTIVITY_KIND_MEMCPY,
                            CUPTI_ACTIVITY_KIND_MEMCPY2,
                            CUPTI_ACTIVITY_KIND_MEMSET,
                            CUPTI_ACTIVITY_KIND_RUNTIME,
                            CUPTI_ACTIVITY_KIND_DRIVER,
                            CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                            CUPTI_ACTIVITY_KIND_CUDA_EVENT,
                            CUPTI_ACTIVITY_KIND_OVERHEAD,
                            CUPTI_ACTIVITY_KIND_MARKER,
                            CUPTI_ACTIVITY_KIND_MARKER_DATA};

// Calls that LibTorch makes around every operation, and that neither launch nor wait.
constexpr std::array kQuietRuntimeCalls{CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020,
                                        CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020,
                                        CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000};
constexpr std::array kQuietDriverCalls{CUPTI_DRIVER_TRACE_CBID_cuKernelGetAttribute, CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxGetState,
                                       CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent};

// Never deleted: CUPTI holds some buffers until the process ends.
CuptiBuffers* process_buffers = nullptr;
const CuptiApi* set_up_api = nullptr;  // the one whose attributes are set

// Slewing (NTP) affects CUPTI's and the host's clock alike. Only setting the time shifts them against each other.
constexpr Nanoseconds kMostClockShift = std::chrono::microseconds(100);

// The times of both clocks at one moment.
struct Clocks {
  Nanoseconds cupti{0};  // 0: could not be read
  Nanoseconds host{0};
};

Nanoseconds host_time() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

// cuptiActivityRegisterTimestampCallback is not used: with it, CUPTI 12.6 to 13.0 may give kernels the time 0.
Clocks read_clocks(const CuptiApi& cupti) {
  constexpr int kTries = 10;  // the fastest one counts: it was interrupted least
  Clocks best;
  Nanoseconds shortest = Nanoseconds::max();
  for (int i = 0; i < kTries; ++i) {
    std::uint64_t time = 0;
    const Nanoseconds before = host_time();
    if (cupti.cuptiGetTimestamp(&time) != CUPTI_SUCCESS) return {};
    const Nanoseconds took = host_time() - before;
    if (took >= shortest) continue;
    shortest = took;
    best = {Nanoseconds{static_cast<std::int64_t>(time)}, before + took / 2};
  }
  return best;
}

void request_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = reinterpret_cast<std::uint8_t*>(process_buffers->take());
  *size = *buffer == nullptr ? 0 : CuptiBuffers::kBytes;
  *max_records = 0;
}

void complete_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  if (buffer != nullptr) process_buffers->give(reinterpret_cast<std::byte*>(buffer), valid);
}

void ignore_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

std::string without_nul(const char* text, std::size_t size) {
  return {text, strnlen(text, size)};
}

CUpti_SubscriberHandle subscribe(const CuptiApi& cupti) {
  std::array<char, 256> other{};
  CUpti_SubscriberHandle subscriber = nullptr;
  CUpti_SubscriberParams params{};
  params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  params.subscriberName = "mptune";
  params.oldSubscriberName = other.data();
  params.oldSubscriberSize = other.size();
  const CUptiResult result = cupti.cuptiSubscribe_v2(&subscriber, ignore_callback, nullptr, &params);
  if (result == CUPTI_SUCCESS) return subscriber;
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    const std::string name = without_nul(other.data(), other.size());
    throw Error("another tool is recording this process", name.empty() ? "an unnamed CUPTI client" : name,
                "end it (Nsight, torch.profiler or a debugger), or run without a recording", ExitCode::environment);
  }
  throw Error("CUPTI could not be started (" + cupti_text(cupti, result) + ")", "CUDA driver",
              "check that nvidia-smi lists a GPU and that the driver is new enough for CUDA 13.0", ExitCode::environment);
}

}  // namespace

CuptiCollector::CuptiCollector(std::vector<TraceDevice> devices, const CuptiApi* api, Attach attach) : given_api_(api), attach_(attach) {
  context_.devices = std::move(devices);
}

CuptiCollector::~CuptiCollector() {
  if (!recording_.exchange(false)) return;
  disable();
  process_buffers->drain([](std::span<std::byte>) {});
}

void CuptiCollector::check(int result, const std::string& what) const {
  if (result == CUPTI_SUCCESS) return;
  throw Error(what + " (" + cupti_text(*api_, static_cast<CUptiResult>(result)) + ")", "CUPTI",
              "check the driver and the permission to profile (a partitioned or virtual GPU may deny it), or run without a recording",
              ExitCode::environment);
}

void CuptiCollector::start() {
  api_ = given_api_ != nullptr ? given_api_ : &cupti_api_with_driver();
  subscriber_ = subscribe(*api_);
  try {
    set_origin();
    enable();
  } catch (...) {
    disable();
    throw;
  }
  recording_.store(true, std::memory_order_release);
}

// Called before the kinds are enabled: that may take seconds, in which other threads' work is already recorded.
void CuptiCollector::set_origin() {
  std::uint64_t time = 0;
  check(api_->cuptiGetTimestamp(&time), "the clock could not be read");
  const Clocks clocks = read_clocks(*api_);
  context_.origin = clocks.cupti;
  started_ = clocks.host;
  context_.started_utc_ns = std::chrono::duration_cast<Nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void CuptiCollector::enable() {
  if (process_buffers == nullptr) process_buffers = new CuptiBuffers;
  process_buffers->drain([](std::span<std::byte>) {});  // discards what arrived after the last recording
  process_buffers->prepare();
  std::uint8_t yes = 1, no = 0;
  std::size_t size = 1;
  check(api_->cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &yes), "buffers were refused");
  if (set_up_api != api_) {
    // Threads share buffers: LibTorch has many threads, and each would hold a buffer.
    check(api_->cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, &size, &no), "buffers were refused");
    check(api_->cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM), "thread numbers were refused");
    set_up_api = api_;
  }
  // Registered each time: the documentation does not say whether callbacks outlast a subscription.
  check(api_->cuptiActivityRegisterCallbacks(request_buffer, complete_buffer), "buffers were refused");
  for (const CUpti_ActivityKind kind : kKinds)
    check(api_->cuptiActivityEnable(kind), "records of kind " + std::to_string(kind) + " were refused");
  check(api_->cuptiActivityEnableAllSyncRecords(0), "records of waits were refused");
  // Errors of the following calls are ignored (an unknown call, a device that is not listed): they only save time and add device names.
  for (const auto call : kQuietRuntimeCalls) api_->cuptiActivityEnableRuntimeApi(call, 0);
  for (const auto call : kQuietDriverCalls) api_->cuptiActivityEnableDriverApi(call, 0);
  (attach_ == Attach::late ? api_->cuptiActivityEnableAndDump : api_->cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_DEVICE);
}

// Switches everything off. Calls may fail if start() failed halfway, which is ignored. The forced flush comes last: later records of
// other threads would end up in the next recording.
void CuptiCollector::disable() {
  api_->cuptiActivityFlushAll(0);
  for (const CUpti_ActivityKind kind : kKinds) api_->cuptiActivityDisable(kind);
  api_->cuptiActivityDisable(CUPTI_ACTIVITY_KIND_DEVICE);
  api_->cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  std::size_t dropped = 0;
  const bool counted = api_->cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS;
  context_.dropped = counted ? static_cast<std::int64_t>(dropped) : 0;
  api_->cuptiUnsubscribe(static_cast<CUpti_SubscriberHandle>(subscriber_));
}

Trace CuptiCollector::stop() {
  recording_ = false;
  disable();
  const Clocks clocks = read_clocks(*api_);
  context_.ended = clocks.cupti;
  CuptiRecords records;
  process_buffers->drain([&](std::span<std::byte> buffer) { decode_buffer(buffer, records); });
  const std::lock_guard lock(tags_mutex_);
  Trace trace = make_trace(std::move(records), context_);
  // A clock was set during the recording. No record tells whether its times are from before or after, so all count as dropped.
  if (std::chrono::abs((clocks.cupti - clocks.host) - (context_.origin - started_)) > kMostClockShift)
    trace.quality.dropped += static_cast<std::int64_t>(trace.events.size());
  return trace;
}

std::uint64_t CuptiCollector::tag(const Tag& tag, EventKind kind) {
  const std::lock_guard lock(tags_mutex_);
  const auto [found, added] =
      tag_ids_.try_emplace({tag.step, tag.stage, tag.microbatch, tag.layer, tag.replica, kind}, std::uint64_t{tag_ids_.size() + 1});
  if (added) context_.tags[found->second] = {tag, kind};
  return found->second;
}

bool CuptiCollector::push(std::uint64_t id) {
  return recording_.load(std::memory_order_acquire) &&
         api_->cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, id) == CUPTI_SUCCESS;
}

void CuptiCollector::pop() {
  std::uint64_t last = 0;
  api_->cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
}

void require_gpu_collector() {
  (void)cupti_api();
}

std::unique_ptr<GpuCollector> make_gpu_collector(std::vector<TraceDevice> devices) {
  return std::make_unique<CuptiCollector>(std::move(devices));
}

}  // namespace mptune::profiler
