#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profiler/trace/values/process_overlap.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// A device as a process numbers it: its globalPid and the deviceId of its rows. Each process that sees one GPU calls it 0.
using LocalDevice = std::pair<std::int64_t, std::int64_t>;

/// Devices of an export. TARGET_INFO_CUDA_DEVICE says which GPU a process means by a number:
///
///     process   its number   GPU          devices
///     500       0            0            cuda:0
///     501       0            1            cuda:1
///
/// If every number means one GPU in all processes, and every GPU has one number, devices keep their numbers; else they have the GPUs'
/// numbers. Parts of a GPU with identifiers of their own (MIG) are devices of their own; all are numbered in order then. Numbers that the
/// table does not explain are taken for numbers of GPUs.
class NsightDevices {
 public:
  NsightDevices() = default;
  /// `used`: the devices that rows of work name. Throws BadContent for more than 4096 devices.
  NsightDevices(SQLite::Database& database, const std::set<LocalDevice>& used);

  [[nodiscard]] const std::vector<TraceDevice>& all() const { return devices_; }
  /// Returns the index into all(); -1 for a device that did no work.
  [[nodiscard]] int index_of(const LocalDevice& device) const;
  /// True if the table says which GPU it is.
  [[nodiscard]] bool is_explained(const LocalDevice& device) const { return explained_.contains(number_in_table(device)); }

 private:
  /// Id and identifier of a GPU; of numbers that are kept, the number.
  using Gpu = std::pair<std::int64_t, std::string>;

  static LocalDevice number_in_table(const LocalDevice& device);
  void read_table(SQLite::Database& database);
  void choose_numbers(const std::set<LocalDevice>& used);
  [[nodiscard]] Gpu gpu_of(const LocalDevice& device) const;
  void describe(SQLite::Database& database);

  std::map<LocalDevice, Gpu> explained_;  ///< by pid and number
  bool keeps_numbers_ = true;
  std::map<Gpu, int> index_;
  std::map<int, std::int64_t> id_of_;  ///< GPU by index
  std::vector<TraceDevice> devices_;
};

}  // namespace mptune::profiler
