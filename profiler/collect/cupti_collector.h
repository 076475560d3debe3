#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "mptune/profiler/collect/collector.h"
#include "mptune/profiler/collect/cupti_records.h"

namespace mptune {

struct CuptiApi;

/// Work that the calling thread starts from here to pop_cupti_tag() carries the tag `id` of CuptiCollector::tag(); tags nest.
/// Returns false, at the cost of one load, while nothing is recorded. Any thread.
bool push_cupti_tag(std::uint64_t id);
/// Takes off what the same thread pushed last. Call it exactly where push_cupti_tag() returned true, also after the recording ended.
void pop_cupti_tag();

/// Records what the GPUs of this process do, through CUPTI. Times are those of std::chrono::steady_clock.
/// CUPTI stays attached to the process after stop(): measure time before, or in another process.
class CuptiCollector final : public Collector {
 public:
  /// `devices` become the first devices of the trace. `api` replaces the library in tests.
  explicit CuptiCollector(std::vector<TraceDevice> devices, const CuptiApi* api = nullptr);
  /// Ends a recording that is still on and forgets it.
  ~CuptiCollector() override;
  CuptiCollector(const CuptiCollector&) = delete;
  CuptiCollector& operator=(const CuptiCollector&) = delete;

  /// Throws Error (environment): no driver, no CUPTI or one too old, another tool records this process, a refused kind of record.
  void start() override;
  /// Requires start(), and that the devices have finished: what is not finished may be lost. What was lost is counted.
  Trace stop() override;
  [[nodiscard]] bool recording() const { return recording_; }

  /// Id for push_cupti_tag(), made on first use. Any thread.
  [[nodiscard]] std::uint64_t tag(const Tag& tag, What what);
  /// Puts a stream (CUcontext, CUstream; a null stream is the context's default one) of CUPTI's device `cuda_device` onto a lane.
  /// Between start() and stop(); holds for later recordings too. Throws Error (environment) if CUPTI does not know them.
  void place(std::uint32_t cuda_device, void* context, void* stream, int trace_device, int lane);
  /// One step's window, common to all devices; times of steady_clock since its epoch.
  void add_step(const StepWindow& step);

 private:
  void enable();
  void disable();
  void check(int result, const std::string& what) const;

  const CuptiApi* given_api_;
  const CuptiApi* api_ = nullptr;
  CuptiContext context_;
  bool recording_ = false;
  void* subscriber_ = nullptr;
  std::mutex tags_mutex_;
  std::map<std::tuple<int, int, int, int, int, What>, std::uint64_t> tag_ids_;
};

}  // namespace mptune
