#include "profiler/base/machine_use.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace mptune {
namespace {

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

double processor_time_s() {
  timespec time{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::optional<MachineUse> use_in(std::string_view proc_stat, const std::vector<int>& cores, double ticks_per_second) {
  std::istringstream lines{std::string(proc_stat)};
  MachineUse use;
  std::size_t found = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft_interrupts = 0, stolen = 0;
    if (!(words >> name >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts >> stolen)) continue;
    if (std::ranges::none_of(cores, [&](int core) { return name == "cpu" + std::to_string(core); })) continue;
    use.busy_s += (user + nice + system + interrupts + soft_interrupts) / ticks_per_second;
    use.stolen_s += stolen / ticks_per_second;
    ++found;
  }
  return found == cores.size() ? std::optional(use) : std::nullopt;
}

std::optional<MachineUse> machine_use(const std::vector<int>& cores) {
  std::ifstream file("/proc/stat");
  std::ostringstream text;
  text << file.rdbuf();
  std::optional<MachineUse> use = use_in(text.str(), cores, static_cast<double>(::sysconf(_SC_CLK_TCK)));
  if (!use) return std::nullopt;
  use->own_s = processor_time_s();
  use->wall_s = steady_s();
  return use;
}

double clock_probe_s() {
  constexpr int kRuns = 3;
  constexpr int kOperations = 50'000;
  double least = std::numeric_limits<double>::infinity();
  std::uint64_t value = 1;
  for (int run = 0; run < kRuns; ++run) {
    const double began = steady_s();
    for (int i = 0; i < kOperations; ++i) {
      value = value * 6364136223846793005u + 1442695040888963407u;
      asm volatile("" : "+r"(value));  // each operation waits for the one before; none is left out
    }
    least = std::min(least, steady_s() - began);
  }
  return least;
}

}  // namespace mptune
