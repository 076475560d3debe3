#include "profiler/base/device_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "profiler/base/error.h"

namespace mptune {
namespace {

constexpr const char* kEnd = "/auto";

/// Names devices of these numbers of cores, one after the other from core `first` on.
std::vector<std::string> named(int first, const std::vector<int>& sizes) {
  std::vector<std::string> names;
  for (const int size : sizes) {
    names.push_back(cpu_name(first, first + size - 1));
    first += size;
  }
  return names;
}

std::vector<std::string> gpu_parts(const DeviceSpec& gpu, int parts) {
  if (parts == 1) return {gpu.name};
  std::vector<std::string> names;
  for (int part = 1; part <= parts; ++part) names.push_back(gpu.name + "/" + std::to_string(part) + "of" + std::to_string(parts));
  return names;
}

/// Cores in groups of `cores_each`: the cores that are left over belong to the largest device.
struct Units {
  explicit Units(int cores) : cores_each((cores + DevicePool::kMostUnits - 1) / DevicePool::kMostUnits), count(cores / cores_each) {
    left_over = cores - count * cores_each;
  }
  [[nodiscard]] std::vector<int> cores_of(const std::vector<int>& units) const {
    std::vector<int> sizes;
    for (const int each : units) sizes.push_back(each * cores_each + (sizes.empty() ? left_over : 0));
    return sizes;
  }
  int cores_each;
  int count;
  int left_over = 0;
};

/// Appends every way to write `left` as a descending sum of numbers of at most `most`.
void add_sums(int left, int most, std::vector<int>& chosen, std::vector<std::vector<int>>& sums) {
  if (left == 0) return sums.push_back(chosen);
  if (static_cast<int>(chosen.size()) == DevicePool::kMostDevices) return;
  for (int next = std::min(left, most); next >= 1; --next) {
    chosen.push_back(next);
    add_sums(left - next, next, chosen, sums);
    chosen.pop_back();
  }
}

int cores_of(const DevicePool& pool) {
  return static_cast<int>(pool.whole.cores.size());
}

}  // namespace

bool names_pool(const std::string& name) {
  return name.ends_with(kEnd);
}

std::optional<DevicePool> find_pool(const std::string& name) {
  if (!names_pool(name)) return std::nullopt;
  auto whole = find_device(name.substr(0, name.size() - std::string(kEnd).size()));
  if (!whole || whole->kind == DeviceSpec::Kind::sleep || whole->parts > 1) return std::nullopt;
  if (whole->kind == DeviceSpec::Kind::cpu && whole->cores.size() < 2) return std::nullopt;
  return DevicePool{*std::move(whole)};
}

DevicePool parse_pool(const std::string& name) {
  if (auto pool = find_pool(name)) return *std::move(pool);
  const std::string whole = name.substr(0, name.size() - std::min(name.size(), std::string(kEnd).size()));
  const auto device = find_device(whole);
  if (device && device->kind == DeviceSpec::Kind::cpu)
    throw Error("one core can't be divided: '" + name + "'", "--devices", "name several, such as cpu:0-3/auto, or the device " + whole);
  if (device && device->kind == DeviceSpec::Kind::sleep)
    throw Error("sleeping devices can't be divided: '" + name + "'", "--devices", "use sleep:K for K of them, or a pool of cores");
  if (device)
    throw Error("a part of a GPU can't be divided: '" + name + "'", "--devices", "name the GPU: " + gpu_name(device->index) + kEnd);
  throw Error("invalid pool of devices '" + name + "'", "--devices", "use cpu:0-15/auto or cuda:0/auto");
}

std::vector<std::vector<std::string>> divisions_of(const DevicePool& pool) {
  std::vector<std::vector<std::string>> divisions;
  if (pool.whole.kind == DeviceSpec::Kind::cuda) {
    for (int parts = 1; parts <= DevicePool::kMostParts; ++parts) divisions.push_back(gpu_parts(pool.whole, parts));
    return divisions;
  }
  const Units units(cores_of(pool));
  std::vector<std::vector<int>> sums;
  std::vector<int> chosen;
  add_sums(units.count, units.count, chosen, sums);
  for (const std::vector<int>& sum : sums) divisions.push_back(named(pool.whole.cores.front(), units.cores_of(sum)));
  return divisions;
}

std::vector<std::string> even_division(const DevicePool& pool) {
  if (pool.whole.kind == DeviceSpec::Kind::cuda) return {pool.whole.name};
  const Units units(cores_of(pool));
  const int devices = std::min(units.count, DevicePool::kMostDevices);
  std::vector<int> sizes;
  for (int d = 0; d < devices; ++d) sizes.push_back(units.count / devices + (d < units.count % devices ? 1 : 0));
  return named(pool.whole.cores.front(), units.cores_of(sizes));
}

std::vector<int> measured_core_counts(int cores) {
  std::vector<int> counts;
  for (int count = 1; count < cores; count *= 2) counts.push_back(count);
  counts.push_back(cores);
  return counts;
}

std::vector<std::string> measured_devices(const DevicePool& pool) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  if (pool.whole.kind == DeviceSpec::Kind::cuda) {
    for (const std::vector<std::string>& division : divisions_of(pool)) std::ranges::for_each(division, add);
    return names;
  }
  const int first = pool.whole.cores.front();
  const int last = pool.whole.cores.back();
  for (const int count : measured_core_counts(cores_of(pool))) {
    add(cpu_name(first, first + count - 1));
    add(cpu_name(last - count + 1, last));
  }
  return names;
}

std::vector<DeviceSpec> others_in_pool(const DevicePool& pool, const DeviceSpec& device) {
  std::vector<std::string> names;
  if (device.kind == DeviceSpec::Kind::cuda) {
    names = gpu_parts(pool.whole, device.parts);
    std::erase(names, device.name);
  } else {
    const int size = static_cast<int>(device.cores.size());
    const int all = cores_of(pool);
    std::vector<int> sizes(static_cast<std::size_t>(all / size), size);
    if (all % size > 0) sizes.push_back(all % size);
    names = named(pool.whole.cores.front(), sizes);
    names.erase(names.begin());
  }
  std::vector<DeviceSpec> others;
  for (const std::string& name : names) others.push_back(parse_device(name));
  return others;
}

std::vector<DeviceSpec> devices_beside(const DeviceSpec& device, const std::vector<DevicePool>& pools,
                                       const std::vector<DeviceSpec>& devices) {
  std::vector<DeviceSpec> beside;
  for (const DevicePool& pool : pools) {
    if (in_pool(device, pool))
      std::ranges::copy(others_in_pool(pool, device), std::back_inserter(beside));
    else
      for (const std::string& name : even_division(pool)) beside.push_back(parse_device(name));
  }
  for (const DeviceSpec& other : devices) {
    const bool pooled = std::ranges::any_of(pools, [&](const DevicePool& pool) { return in_pool(other, pool); });
    if (!pooled && other.name != device.name) beside.push_back(other);
  }
  return beside;
}

std::vector<std::vector<std::string>> divided(const std::vector<DevicePool>& pools, const std::vector<std::string>& others) {
  std::vector<std::vector<std::string>> lists{{}};
  for (const DevicePool& pool : pools) {
    const std::vector<std::vector<std::string>> divisions = divisions_of(pool);
    if (lists.size() * divisions.size() > kMostDivisions)
      throw Error("the pools can be divided in more than " + std::to_string(kMostDivisions) + " ways", "--devices",
                  "leave the division of one pool open, and name the other devices");
    std::vector<std::vector<std::string>> longer;
    for (const std::vector<std::string>& list : lists)
      for (const std::vector<std::string>& division : divisions) {
        longer.push_back(list);
        longer.back().insert(longer.back().end(), division.begin(), division.end());
      }
    lists = std::move(longer);
  }
  for (std::vector<std::string>& list : lists) list.insert(list.end(), others.begin(), others.end());
  return lists;
}

bool overlap(const DeviceSpec& a, const DeviceSpec& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == DeviceSpec::Kind::cpu) return std::ranges::find_first_of(a.cores, b.cores) != a.cores.end();
  return a.index == b.index && (a.parts != b.parts || a.part == b.part);
}

bool in_pool(const DeviceSpec& device, const DevicePool& pool) {
  if (device.kind != pool.whole.kind) return false;
  return device.kind == DeviceSpec::Kind::cpu ? std::ranges::includes(pool.whole.cores, device.cores) : device.index == pool.whole.index;
}

}  // namespace mptune
