#pragma once

#include <cstdint>
#include <string>

#include "tuner/training/training_state.h"

namespace mptune {

/// What a checkpoint belongs to.
struct CheckpointInfo {
  std::string model;        ///< its name, for people
  std::string fingerprint;  ///< Model::fingerprint
  std::string optimizer;    ///< "adam"
  std::uint64_t seed = 0;   ///< PipelineOptions::seed
  int batch = 0;            ///< samples of a step
  Precision precision = Precision::float32;
  bool operator==(const CheckpointInfo&) const = default;
};

/// Writes a checkpoint `folder`/step-N: tensors.safetensors ("model.NAME", "optimizer.ENTRY.NAME") and checkpoint.json. It appears whole or
/// not at all, also if the process is killed or the machine loses power. Of older ones the newest stays. Makes the folder.
/// Throws Error (environment) where it can't be written; older checkpoints are then unharmed.
void save_checkpoint(const std::string& folder, const CheckpointInfo& info, const TrainingState& state);

/// Path of the checkpoint in `folder` with most steps; "" for none.
[[nodiscard]] std::string latest_checkpoint(const std::string& folder);

struct Checkpoint {
  CheckpointInfo info;
  TrainingState state;
};
/// Throws Error for one that is damaged or of a newer version.
[[nodiscard]] Checkpoint load_checkpoint(const std::string& path);

}  // namespace mptune
