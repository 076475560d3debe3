#pragma once

#include <string>

#include "profiler/model/program/exported_program.h"

namespace mptune::profiler {

/// Moves the writes to buffers that torch.export puts at the program's end to the place where the buffer was last used.
///
/// A buffer that forward assigns is written by a copy after everything else:
///
///     self.steps += 1              add_ = add_(steps, 1)
///     x = self.first(x)            linear(x, ...)
///     x = self.second(x)           linear_1(linear, ...)
///                                  copy_(steps, add_)      <- moved behind add_
///
/// A layer holds all uses of a buffer that is written, so that without this the program could not be cut anywhere between them. Each copy
/// moves up to just after the last node that computes what it reads, writes to it, or uses the buffer. All values stay the same.
/// `where` names the file in messages. Throws Error as ExportedGraph does.
[[nodiscard]] ExportedProgram with_early_writes(ExportedProgram program, const std::string& where);

}  // namespace mptune::profiler
