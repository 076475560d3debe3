#include "profiler/trace/store/nsight_devices.h"

#include <algorithm>

#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"
#include "profiler/trace/store/nsight_leaves.h"
#include "profiler/trace/store/rows.h"
#include "profiler/trace/store/tables.h"

namespace mptune::profiler {
namespace {

constexpr const char* kCudaDevices = "TARGET_INFO_CUDA_DEVICE";
constexpr const char* kGpus = "TARGET_INFO_GPU";
constexpr std::size_t kMostGpus = 4096;

std::map<std::string, std::int64_t> ids_by_identifier(SQLite::Database& database) {
  std::map<std::string, std::int64_t> ids;
  if (!has_table(database, kGpus)) return ids;
  Rows gpu(database, "SELECT " + selection(database, kGpus, {"id", "uuid"}) + " FROM " + kGpus);
  while (gpu.next())
    if (!gpu.null(0) && !gpu.null(1)) ids[gpu.text(1)] = gpu.integer(0);
  return ids;
}

}  // namespace

NsightDevices::NsightDevices(SQLite::Database& database, const std::set<LocalDevice>& used) {
  if (has_table(database, kCudaDevices)) read_table(database);
  choose_numbers(used);
  for (const LocalDevice& device : used) index_[gpu_of(device)] = 0;
  if (index_.size() > kMostGpus) throw BadContent("more than 4096 devices");
  std::set<std::int64_t> ids;
  for (const auto& [gpu, index] : index_) ids.insert(gpu.first);
  for (auto& [gpu, index] : index_) {
    index = static_cast<int>(devices_.size());
    const std::int64_t number = ids.size() == index_.size() ? gpu.first : index;
    devices_.push_back({.name = gpu_name(number), .description = "CUDA device"});
  }
  for (const LocalDevice& device : used) {
    const auto explained = explained_.find(number_in_table(device));
    id_of_.try_emplace(index_of(device), explained == explained_.end() ? device.second : explained->second.first);
  }
  if (has_table(database, kGpus)) describe(database);
}

// A globalPid holds the process above the thread's 24 bits, and the machine above the process.
LocalDevice NsightDevices::number_in_table(const LocalDevice& device) {
  return {device.first >> 24 & 0xFFFFFF, device.second};
}

void NsightDevices::read_table(SQLite::Database& database) {
  const std::map<std::string, std::int64_t> ids = ids_by_identifier(database);
  Rows rows(database,
            "SELECT " + selection(database, kCudaDevices, {"gpuId", "cudaId", "pid", "uuid"}) + " FROM " + std::string(kCudaDevices));
  while (rows.next()) {
    if (rows.null(1) || rows.null(2)) continue;
    const std::string identifier = rows.null(3) ? "" : rows.text(3);
    const auto by_identifier = ids.find(identifier);
    if (rows.null(0) && by_identifier == ids.end()) continue;
    explained_[{rows.integer(2), rows.integer(1)}] = {rows.null(0) ? by_identifier->second : rows.integer(0), identifier};
  }
}

void NsightDevices::choose_numbers(const std::set<LocalDevice>& used) {
  std::map<std::int64_t, std::set<Gpu>> gpus_of;
  std::map<Gpu, std::set<std::int64_t>> numbers_of;
  for (const LocalDevice& device : used) {
    const auto found = explained_.find(number_in_table(device));
    if (found == explained_.end()) continue;
    gpus_of[device.second].insert(found->second);
    numbers_of[found->second].insert(device.second);
  }
  const auto is_one = [](const auto& entry) { return entry.second.size() == 1; };
  keeps_numbers_ = std::ranges::all_of(gpus_of, is_one) && std::ranges::all_of(numbers_of, is_one);
}

NsightDevices::Gpu NsightDevices::gpu_of(const LocalDevice& device) const {
  const auto found = explained_.find(number_in_table(device));
  return keeps_numbers_ || found == explained_.end() ? Gpu{device.second, ""} : found->second;
}

int NsightDevices::index_of(const LocalDevice& device) const {
  const auto found = index_.find(gpu_of(device));
  return found == index_.end() ? -1 : found->second;
}

void NsightDevices::describe(SQLite::Database& database) {
  Rows gpu(database, "SELECT " + selection(database, kGpus, {"id", "name", "totalMemory"}) + " FROM " + kGpus);
  while (gpu.next()) {
    for (const auto& [index, id] : id_of_) {
      if (gpu.null(0) || gpu.integer(0) != id) continue;
      TraceDevice& device = devices_[as_index(index)];
      if (!gpu.null(1)) device.description = gpu.text(1);
      device.memory_bytes = gpu.integer_or(2, 0);
    }
  }
}

}  // namespace mptune::profiler
