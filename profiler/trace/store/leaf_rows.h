#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "profiler/trace/store/placement.h"
#include "profiler/trace/store/rows.h"

namespace mptune::profiler {

/// Returns the process that has the device in the Nsight tables.
[[nodiscard]] std::int64_t process_of(const TraceDevice& device);

/// Writes events into the Nsight tables of device work. rowid is the event's index + 1.
class LeafRows {
 public:
  /// All arguments must outlive it.
  LeafRows(SQLite::Database& database, const Trace& trace, const Placement& placement);

  /// Adds an event that is not host work. `global_tid`: the thread, used for the recorder's own work only.
  void operator()(std::int64_t start, std::int64_t end, std::size_t index, const std::optional<std::int64_t>& correlation,
                  std::int64_t global_tid);
  /// Call after the last event.
  void flush();

 private:
  using Correlation = std::optional<std::int64_t>;

  [[nodiscard]] std::int64_t pid(int device) const;
  [[nodiscard]] int memory_kind(int device) const;
  void kernel(std::int64_t start, std::int64_t end, std::size_t index, const Correlation& correlation);
  void copy(std::int64_t start, std::int64_t end, std::size_t index, const Correlation& correlation);
  void overhead(std::int64_t start, std::int64_t end, std::size_t index, std::int64_t global_tid);

  const Trace& trace_;
  std::vector<bool> on_gpu_;        // by device
  std::vector<std::int64_t> pids_;  // by device
  const Placement& placement_;
  BulkInsert kernel_;
  BulkInsert memcpy_;
  BulkInsert memset_;
  BulkInsert wait_;
  BulkInsert overhead_;
};

}  // namespace mptune::profiler
