#include "profiler/base/machine.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "profiler/base/text.h"

namespace mptune {
namespace {

/// Returns the first value of a key in /proc/cpuinfo: "AMD EPYC" in "model name\t: AMD EPYC"; "" if the key is missing.
std::string cpu_value(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos && line.starts_with(key) && line.find_first_not_of(" \t", key.size()) == colon)
      return one_line(line.substr(colon + 2));
  }
  return "";
}

/// A virtual machine has no limits of clocks; its /proc/cpuinfo names a fixed clock.
int highest_clock_mhz() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  if (long khz = 0; file >> khz) return static_cast<int>(khz / 1000);
  return static_cast<int>(std::strtod(cpu_value("cpu MHz").c_str(), nullptr));
}

int count_in(const nlohmann::json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_number_integer() ? static_cast<int>(std::clamp<std::int64_t>(*value, 0, 1 << 20)) : 0;
}

}  // namespace

Machine this_machine() {
  return {.cpu = cpu_value("model name"), .cores = static_cast<int>(std::thread::hardware_concurrency()), .clock_mhz = highest_clock_mhz()};
}

std::string machine_to_json(const Machine& machine) {
  const nlohmann::json object = {{"cpu", machine.cpu}, {"cores", machine.cores}, {"clock_mhz", machine.clock_mhz}};
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Machine machine_from_json(const std::string& json) {
  const nlohmann::json object = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return {};
  const auto cpu = object.find("cpu");
  return {.cpu = cpu != object.end() && cpu->is_string() ? cpu->get<std::string>() : "",
          .cores = count_in(object, "cores"),
          .clock_mhz = count_in(object, "clock_mhz")};
}

}  // namespace mptune
