#pragma once

#include "profiler/model/program/exported_program.h"

namespace mptune::profiler {

/// Puts the nodes of torch.no_grad() and torch.enable_grad() in place of the one node that runs them as a region, so that the program can
/// be cut among them: a frozen trunk that is run without gradients has as many layers as any other trunk.
///
///     wrap_with_set_grad_enabled(False, region, x)        conv(x)           without gradients
///         region: conv(x), relu(conv)                     relu(conv)        without gradients
///     linear(region's output)                             linear(relu)
///
/// Nodes within torch.no_grad() stay without gradients, even in an enabling region inside it. Nodes without gradients are marked
/// (ProgramNode::without_gradients). Regions whose arguments or results are not values of the program stay.
[[nodiscard]] ExportedProgram with_flat_regions(ExportedProgram program);

}  // namespace mptune::profiler
