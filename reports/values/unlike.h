#pragma once

#include <string>
#include <utility>
#include <vector>

#include "profiler/base/machine.h"
#include "profiler/trace/values/profile.h"
#include "profiler/trace/values/trace.h"

namespace mptune::reports {

/// What a side of a comparison ran, and on what; empty and 0: not known.
struct ComparedWork {
  std::string model;        ///< as named by the user
  Fingerprint fingerprint;  ///< its devices are not looked at
  int batch = 0;
  std::vector<TraceDevice> devices;  ///< without descriptions where these are not known
  Machine machine;
};

/// A thing besides the plan in which A and B differ. Only what is known of both is compared.
struct Unlike {
  enum class What { model, model_content, input, batch, devices, device, libtorch, cuda, cpu, cores, clock };
  What what = What::model;
  std::string a;  ///< "" for `model_content`
  std::string b;
};

/// Returns the differences: first those that make steps different work, then devices, then the machine.
[[nodiscard]] std::vector<Unlike> unlike_things(const ComparedWork& a, const ComparedWork& b);

/// Returns whether, with this difference, the times of A and B are those of two machines, or of one machine with different software.
[[nodiscard]] bool is_of_machine(Unlike::What what);

/// Returns the difference in words: "model", "model content", "LibTorch", "highest clock of a core".
[[nodiscard]] const char* name_of(Unlike::What what);

}  // namespace mptune::reports
