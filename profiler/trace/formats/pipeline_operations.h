#pragma once

#include <string>
#include <vector>

#include "profiler/trace/formats/text_input.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Kinds of operations that a worker of a pipeline runs.
enum class OperationKind { forward, backward, forward_send, forward_recv, backward_send, backward_recv, collective, optimizer, host };

struct PipelineOperation {
  OperationKind kind = OperationKind::host;
  int name = -1;  ///< index into PipelineOperations::names
  int replica = -1;
  int stage = -1;  ///< of the worker
  int step = -1;
  int chunk = 0;        ///< model chunk (virtual stage) on this worker
  int microbatch = -1;  ///< -1: the file does not say
  Nanoseconds start{0};
  Nanoseconds end{0};
};

struct PipelineOperations {
  std::vector<PipelineOperation> operations;  ///< ordered by start; the first starts at 0
  std::vector<std::string> names;
  std::string where;  ///< the file, for messages
  int stages = 0;
  int replicas = 0;
  int chunks = 1;
  std::int64_t dropped = 0;  ///< number of operations without stage, step or time

  [[nodiscard]] int devices() const { return stages * replicas; }
  [[nodiscard]] int device(const PipelineOperation& operation) const { return operation.replica * stages + operation.stage; }
};

/// Reads the operations of a timeline. Throws Error like read_pipeline_timeline.
[[nodiscard]] PipelineOperations read_pipeline_operations(TextInput& input);

}  // namespace mptune::profiler
