#include "profiler/trace/formats/kineto.h"

namespace mptune::profiler {

Trace read_kineto(TextInput& input) {
  return read_kineto_rank(input).trace;
}

Trace read_kineto(const std::string& path) {
  return read_kineto_rank(path).trace;
}

}  // namespace mptune::profiler
