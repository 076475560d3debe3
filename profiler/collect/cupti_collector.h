#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "mptune/profiler/collect/cupti_records.h"
#include "mptune/profiler/collect/gpu_collector.h"

namespace mptune {

struct CuptiApi;

/// Records what the GPUs of this process do, through CUPTI. Times come from CUPTI's clock, which is read together with
/// std::chrono::steady_clock when a recording starts and when it ends: where one of the two was set meanwhile, all events count as dropped.
/// CUPTI stays attached to the process after stop(): measure time before, or in another process.
class CuptiCollector final : public GpuCollector {
 public:
  /// Whether CUDA is initialised when a recording starts. Before that CUPTI cannot be asked for the devices; it names them by itself.
  enum class Attach { late, before_cuda };

  /// `devices` become the first devices of the trace; "cuda:N" gets all streams of GPU N. `api` replaces the library in tests.
  explicit CuptiCollector(std::vector<TraceDevice> devices, const CuptiApi* api = nullptr, Attach attach = Attach::late);
  /// Ends a recording that is still on and forgets it.
  ~CuptiCollector() override;
  CuptiCollector(const CuptiCollector&) = delete;
  CuptiCollector& operator=(const CuptiCollector&) = delete;

  /// Throws Error (environment): no driver, no CUPTI or one too old, another tool records this process, a refused kind of record.
  void start() override;
  /// Requires start(), and that the devices have finished: what is not finished may be lost. What was lost is counted.
  Trace stop() override;
  [[nodiscard]] Nanoseconds started() const override { return started_; }

  [[nodiscard]] std::uint64_t tag(const Tag& tag, What what) override;
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
  std::map<std::tuple<int, int, int, int, int, What>, std::uint64_t> tag_ids_;
};

}  // namespace mptune
