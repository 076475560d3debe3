#pragma once

namespace emulation {

/// Takes EMULATED_WORKSPACE bytes of the current GPU for the current stream and the calling thread's handle of cuBLAS, if they have none
/// yet. LibTorch takes as much at the first matrix product of each and keeps it. Nothing if the setting is 0.
void take_workspace();

}  // namespace emulation
