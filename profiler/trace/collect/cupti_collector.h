#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "profiler/trace/collect/cupti_records.h"
#include "profiler/trace/collect/gpu_collector.h"

namespace mptune::profiler {

struct CuptiApi;

/// Records the GPUs of this process through CUPTI. Times come from CUPTI's clock.
/// That clock and std::chrono::steady_clock are read together at start and stop. If one was set meanwhile, all events count as dropped.
/// CUPTI stays attached to the process after stop(), which slows it down: measure times before, or in another process.
class CuptiCollector final : public GpuCollector {
 public:
  /// Whether start() is called after CUDA was initialised or before. Before that, CUPTI cannot list devices; records name them later.
  enum class Attach { late, before_cuda };

  /// `devices` become the first devices of the trace; "cuda:N" gets all streams of GPU N. Tests pass `api`, a fake.
  explicit CuptiCollector(std::vector<TraceDevice> devices, const CuptiApi* api = nullptr, Attach attach = Attach::late);
  /// Ends a recording that was not stopped, and discards it.
  ~CuptiCollector() override;
  CuptiCollector(const CuptiCollector&) = delete;
  CuptiCollector& operator=(const CuptiCollector&) = delete;

  /// Throws Error (environment) if there is no driver, no CUPTI or one that is too old, if another tool is recording this process, or if a
  /// kind of record is refused.
  void start() override;
  /// Requires: start() was called. Wait for the devices first: unfinished work may be lost. Lost records are counted.
  Trace stop() override;
  [[nodiscard]] Nanoseconds started() const override { return started_; }

  [[nodiscard]] std::uint64_t tag(const Tag& tag, EventKind kind) override;
  [[nodiscard]] bool push(std::uint64_t id) override;
  void pop() override;

 private:
  void set_origin();
  void enable();
  void disable();
  void check(int result, const std::string& what) const;

  const CuptiApi* given_api_;
  Attach attach_;
  const CuptiApi* api_ = nullptr;
  CuptiContext context_;
  Nanoseconds started_{0};  // the host's time at context_.origin
  std::atomic<bool> recording_ = false;
  void* subscriber_ = nullptr;
  std::mutex tags_mutex_;
  std::map<std::tuple<int, int, int, int, int, EventKind>, std::uint64_t> tag_ids_;
};

}  // namespace mptune::profiler
