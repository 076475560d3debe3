#pragma once

#include <string>
#include <vector>

#include "profiler/model/layers/loaded_model.h"

namespace mptune {

/// Returns parameters and buffers in the order of Python's state_dict(): module by module, parameters before buffers.
[[nodiscard]] std::vector<NamedTensor> state_of(const Model& model);

/// Copies a state dict saved by Python's torch.save, or a safetensors file, into the model; every name and shape must agree, tied tensors
/// may go by any or all of their names. `extras` are those of load_model; tensors that no layer uses are overwritten there. Throws Error
/// that names the first tensor that does not agree; nothing is copied then.
void load_state(Model& model, const std::string& path, const StateExtras& extras = {});
/// Writes parameters, buffers and `extras` as a state dict that torch.load(path, weights_only=True) and load_state_dict(strict=True) take.
/// If the name ends in .safetensors, writes a file for safetensors.torch.load_model: tied tensors once, their other names in the metadata.
/// Throws Error (environment) when it can't be written.
void save_state(const Model& model, const std::string& path, const StateExtras& extras = {});

/// Throws Error if save_state() could not write the state to a file of this name because of the types of its tensors.
void check_can_save(const Model& model, const std::string& path, const StateExtras& extras = {});

}  // namespace mptune
