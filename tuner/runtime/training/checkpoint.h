#pragma once

#include <cstdint>
#include <string>

#include "tuner/runtime/training/training_state.h"

namespace mptune {

/// What a checkpoint belongs to.
struct CheckpointInfo {
  std::string model;        ///< the model's name, for people
  std::string fingerprint;  ///< Model::fingerprint
  std::string optimizer;    ///< "adam"
  std::uint64_t seed = 0;   ///< PipelineOptions::seed
  int batch = 0;            ///< samples of a step
  Precision precision = Precision::float32;
  bool operator==(const CheckpointInfo&) const = default;
};

/// Writes a checkpoint `folder`/step-N: tensors.safetensors ("model.NAME", "optimizer.ENTRY.NAME") and checkpoint.json. It appears whole or
/// not at all, also if the process is killed or the machine loses power. checkpoint.json holds the SHA-256 of tensors.safetensors and of
/// itself without that entry. Of older checkpoints the newest stays. Checkpoints of later steps, which this training did not go on from,
/// are removed. Makes the folder. Throws Error (environment) where it can't be written; older checkpoints are then unharmed.
void save_checkpoint(const std::string& folder, const CheckpointInfo& info, const TrainingState& state);

/// Returns the path of the checkpoint in `folder` with most steps; "" for none.
[[nodiscard]] std::string latest_checkpoint(const std::string& folder);

/// Returns the path of the checkpoint in `folder` with `steps` steps. Where there is none, throws Error (usage) that names those there are.
[[nodiscard]] std::string checkpoint_of(const std::string& folder, std::int64_t steps);

struct Checkpoint {
  CheckpointInfo info;
  TrainingState state;
};
/// Loads a checkpoint. Throws Error for one that is damaged, down to a single bit (the remedy names the checkpoint before it), or of a
/// newer version. Checkpoints of version 1 have no checksums.
[[nodiscard]] Checkpoint load_checkpoint(const std::string& path);

}  // namespace mptune
