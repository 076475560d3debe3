#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mptune::profiler {

/// Times LibTorch's operators that the calling thread runs during its lifetime, backward on CPU included. One per thread at a time.
class OperatorTimes {
 public:
  OperatorTimes();
  ~OperatorTimes();
  OperatorTimes(const OperatorTimes&) = delete;
  OperatorTimes& operator=(const OperatorTimes&) = delete;

  /// Returns seconds by operator ("aten::addmm"), without those of the operators that it called.
  [[nodiscard]] const std::map<std::string, double>& seconds() const { return seconds_; }

 private:
  struct Running {
    double start_s = 0;
    double called_s = 0;
  };
  friend struct OperatorCallbacks;
  std::uint64_t handle_;
  std::vector<Running> running_;
  std::map<std::string, double> seconds_;
};

}  // namespace mptune::profiler
