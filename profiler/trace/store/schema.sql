-- The one source of the schema of a trace file.
-- First part: the tables of an Nsight Systems SQLite export, schema 3.25.0 (names, order, types and NOT NULL are the layout's).
-- Second part: mptune's own tables. Times are nanoseconds; the first event of a file starts at 1 or later.

CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL,
  mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL,
  gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
  staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL,
  localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER,
  sharedMemoryLimitConfig INTEGER, qmdBulkReleaseDone INTEGER, qmdPreexitDone INTEGER, qmdLastCtaDone INTEGER, graphId INTEGER,
  clusterX INTEGER, clusterY INTEGER, clusterZ INTEGER, clusterSchedulingPolicy INTEGER, maxPotentialClusterSize INTEGER,
  maxActiveClusters INTEGER, sharedMemoryRequestedPercentage INTEGER, tensorSizeMinusOneElements TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL,
  deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER,
  dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER, copyCount INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL,
  graphNodeId INTEGER, memKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
  start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER,
  nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, deprecatedSyncType INTEGER, syncType INTEGER NOT NULL,
  eventId INTEGER NOT NULL, eventSyncId INTEGER);
CREATE TABLE PROFILER_OVERHEAD (
  start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, nameId INTEGER NOT NULL, overheadType INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (
  start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER, text TEXT,
  globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER,
  doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);
CREATE TABLE TARGET_INFO_GPU (
  vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, isDiscrete INTEGER, l2CacheSize INTEGER,
  totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, pwGpuId INTEGER, uuid TEXT, luid INTEGER,
  chipName TEXT, cuDevice INTEGER, ctxswDevPath TEXT, ctrlDevPath TEXT, revision INTEGER, nodeMask INTEGER,
  constantMemory INTEGER, maxIPC INTEGER, maxRegistersPerBlock INTEGER, maxShmemPerBlock INTEGER, maxShmemPerBlockOptin INTEGER,
  maxShmemPerSm INTEGER, maxRegistersPerSm INTEGER, threadsPerWarp INTEGER, asyncEngines INTEGER, maxWarpsPerSm INTEGER,
  maxBlocksPerSm INTEGER, maxThreadsPerBlock INTEGER, maxBlockDimX INTEGER, maxBlockDimY INTEGER, maxBlockDimZ INTEGER,
  maxGridDimX INTEGER, maxGridDimY INTEGER, maxGridDimZ INTEGER, computeMajor INTEGER, computeMinor INTEGER, smMajor INTEGER,
  smMinor INTEGER);
CREATE TABLE TARGET_INFO_CUDA_DEVICE (
  gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT, numMultiprocessors INTEGER);
CREATE TABLE TARGET_INFO_CUDA_CONTEXT_INFO (
  nullStreamId INTEGER NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL, processId INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, parentContextId INTEGER, isGreenContext INTEGER,
  numMultiprocessors INTEGER);
CREATE TABLE TARGET_INFO_CUDA_STREAM (
  streamId INTEGER NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL, processId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  priority INTEGER NOT NULL, flag INTEGER NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT, systemClockNs INTEGER);
CREATE TABLE TARGET_INFO_SYSTEM_ENV (
  globalVid INTEGER, devStateName TEXT NOT NULL, name TEXT NOT NULL, nameEnum INTEGER NOT NULL, value TEXT NOT NULL);
CREATE TABLE ANALYSIS_DETAILS (
  globalVid INTEGER NOT NULL, duration INTEGER NOT NULL, startTime INTEGER NOT NULL, stopTime INTEGER NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);

CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES
  (0, 'CUDA_MEMCPY_KIND_UNKNOWN', 'Unknown'), (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device'),
  (2, 'CUDA_MEMCPY_KIND_DTOH', 'Device-to-Host'), (3, 'CUDA_MEMCPY_KIND_HTOA', 'Host-to-Array'),
  (4, 'CUDA_MEMCPY_KIND_ATOH', 'Array-to-Host'), (5, 'CUDA_MEMCPY_KIND_ATOA', 'Array-to-Array'),
  (6, 'CUDA_MEMCPY_KIND_ATOD', 'Array-to-Device'), (7, 'CUDA_MEMCPY_KIND_DTOA', 'Device-to-Array'),
  (8, 'CUDA_MEMCPY_KIND_DTOD', 'Device-to-Device'), (9, 'CUDA_MEMCPY_KIND_HTOH', 'Host-to-Host'),
  (10, 'CUDA_MEMCPY_KIND_PTOP', 'Peer-to-Peer'), (11, 'CUDA_MEMCPY_KIND_UVM_HTOD', 'Unified Host-to-Device'),
  (12, 'CUDA_MEMCPY_KIND_UVM_DTOH', 'Unified Device-to-Host'), (13, 'CUDA_MEMCPY_KIND_UVM_DTOD', 'Unified Device-to-Device');
CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUDA_MEM_KIND VALUES
  (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'), (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'),
  (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device'), (3, 'CUDA_MEMOPR_MEMORY_KIND_ARRAY', 'Array'),
  (4, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED', 'Managed'), (5, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC', 'Device Static'),
  (6, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC', 'Managed Static'), (7, 'CUDA_MEMOPR_MEMORY_KIND_UNKNOWN', 'Unknown');
CREATE TABLE ENUM_CUDA_KERNEL_LAUNCH_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUDA_KERNEL_LAUNCH_TYPE VALUES
  (0, 'CUDA_KERNEL_LAUNCH_TYPE_UNKNOWN', 'Unknown'), (1, 'CUDA_KERNEL_LAUNCH_TYPE_REGULAR', 'Regular'),
  (2, 'CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE', 'Coop Single Device'),
  (3, 'CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_MULTI_DEVICE', 'Coop Multi Device');
CREATE TABLE ENUM_CUPTI_SYNC_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUPTI_SYNC_TYPE VALUES
  (0, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN', 'Unknown'),
  (1, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE', 'Event sync'),
  (2, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT', 'Stream wait sync'),
  (3, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE', 'Stream sync'),
  (4, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE', 'Context sync');
CREATE TABLE ENUM_CUPTI_STREAM_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUPTI_STREAM_TYPE VALUES
  (0, 'CUPTI_ACTIVITY_STREAM_CREATE_FLAG_UNKNOWN', 'Unknown stream type'),
  (1, 'CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT', 'Default stream'),
  (2, 'CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING', 'Non-blocking stream'),
  (3, 'CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL', 'Null stream');
CREATE TABLE ENUM_CUPTI_OVERHEAD_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUPTI_OVERHEAD_TYPE VALUES
  (0, 'OVERHEAD_UNDEFINED', 'Undefined'), (1, 'OVERHEAD_UNKNOWN', 'Unknown'),
  (2, 'OVERHEAD_DRIVER_COMPILER', 'Driver JIT compiler (CUDA)'), (3, 'OVERHEAD_CUPTI_BUFFER_FLUSH', 'Buffer flush (Profiler)'),
  (4, 'OVERHEAD_CUPTI_INSTRUMENTATION', 'Instrumentation (Profiler)'),
  (5, 'OVERHEAD_CUPTI_RESOURCE', 'Resource creation/destruction (Profiler)'),
  (6, 'OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING', 'Runtime module loading (CUDA)'),
  (7, 'OVERHEAD_LAZY_FUNCTION_LOADING', 'Lazy function loading (CUDA)'),
  (8, 'OVERHEAD_COMMAND_BUFFER_FULL', 'Command buffer full (CUDA)');
CREATE TABLE ENUM_CUDA_FUNC_CACHE_CONFIG (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUDA_FUNC_CACHE_CONFIG VALUES
  (0, 'CU_FUNC_CACHE_PREFER_NONE', 'None'), (1, 'CU_FUNC_CACHE_PREFER_SHARED', 'Shared'), (2, 'CU_FUNC_CACHE_PREFER_L1', 'L1'),
  (3, 'CU_FUNC_CACHE_PREFER_EQUAL', 'Equal');
CREATE TABLE ENUM_DIAGNOSTIC_SEVERITY_LEVEL (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_DIAGNOSTIC_SEVERITY_LEVEL VALUES
  (0, 'UnknownLevel', 'Unknown'), (1, 'Info', 'Info'), (2, 'Warning', 'Warning'), (3, 'Error', 'Error'), (4, 'Verbose', 'Verbose');
CREATE TABLE ENUM_DIAGNOSTIC_SOURCE_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_DIAGNOSTIC_SOURCE_TYPE VALUES
  (0, 'UnknownSource', 'Unknown source'), (1, 'Injection', 'Injection'), (2, 'Daemon', 'Daemon'), (3, 'Analysis', 'Analysis');
CREATE TABLE ENUM_DIAGNOSTIC_TIMESTAMP_SOURCE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_DIAGNOSTIC_TIMESTAMP_SOURCE VALUES
  (0, 'UnknownTimestamp', 'Unknown timestamp'), (1, 'TargetTimestamp', 'Target timestamp'), (2, 'HostTimestamp', 'Host timestamp');
CREATE TABLE ENUM_NSYS_EVENT_CLASS (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_NSYS_EVENT_CLASS VALUES
  (0, 'TRACE_PROCESS_EVENT_CUDA_RUNTIME', 'CUDA runtime'), (1, 'TRACE_PROCESS_EVENT_CUDA_DRIVER', 'CUDA driver'),
  (2, 'TRACE_PROCESS_EVENT_GL', 'GL'), (3, 'TRACE_PROCESS_EVENT_TSP_OVERHEAD', 'TSP overhead'),
  (4, 'TRACE_PROCESS_EVENT_GL_DEBUG', 'GL debug'), (5, 'TRACE_PROCESS_EVENT_GL_WORKLOAD', 'GL workload'),
  (6, 'TRACE_PROCESS_EVENT_NVTX_START', 'NVTX start'), (7, 'TRACE_PROCESS_EVENT_NVTX_FINISH', 'NVTX finish'),
  (8, 'TRACE_PROCESS_EVENT_GL_START', 'GL start'), (9, 'TRACE_PROCESS_EVENT_GL_FINISH', 'GL finish'),
  (10, 'TRACE_PROCESS_EVENT_CUDA_START', 'CUDA start'), (11, 'TRACE_PROCESS_EVENT_CUDA_FINISH', 'CUDA finish'),
  (12, 'TRACE_PROCESS_EVENT_CUDA_INIT_ERROR', 'CUDA init error'), (13, 'TRACE_PROCESS_EVENT_CUDA_EGL_DRIVER', 'CUDA EGL driver'),
  (18, 'TRACE_PROCESS_EVENT_VSYNC', 'Vsync'), (26, 'TRACE_PROCESS_EVENT_CUDA_API', 'CUDA API'),
  (27, 'TRACE_PROCESS_EVENT_OS_RUNTIME', 'OSRT runtime'), (28, 'TRACE_PROCESS_EVENT_CUDNN', 'cuDNN'),
  (29, 'TRACE_PROCESS_EVENT_CUBLAS', 'cuBLAS'), (31, 'TRACE_PROCESS_EVENT_OS_RUNTIME_START', 'OSRT start'),
  (32, 'TRACE_PROCESS_EVENT_OS_RUNTIME_FINISH', 'OSRT finish'), (33, 'TRACE_PROCESS_EVENT_CUDNN_START', 'cuDNN start'),
  (34, 'TRACE_PROCESS_EVENT_CUDNN_FINISH', 'cuDNN finish'), (35, 'TRACE_PROCESS_EVENT_CUBLAS_START', 'cuBLAS start'),
  (36, 'TRACE_PROCESS_EVENT_CUBLAS_FINISH', 'cuBLAS finish'), (37, 'TRACE_PROCESS_EVENT_THREAD_BLOCK', 'Thread block'),
  (38, 'TRACE_PROCESS_EVENT_NVMEDIA', 'NVmedia'), (39, 'TRACE_PROCESS_EVENT_NVMEDIA_START', 'NVmedia start'),
  (40, 'TRACE_PROCESS_EVENT_NVMEDIA_FINISH', 'NVmedia finish'), (41, 'TRACE_PROCESS_EVENT_DX12_API', 'DX12 API'),
  (42, 'TRACE_PROCESS_EVENT_DX12_WORKLOAD', 'DX12 workload'), (43, 'TRACE_PROCESS_EVENT_DX12_START', 'DX12 start'),
  (44, 'TRACE_PROCESS_EVENT_DX12_FINISH', 'DX12 finish'), (45, 'TRACE_PROCESS_EVENT_OPENACC_START', 'OpenACC start'),
  (46, 'TRACE_PROCESS_EVENT_OPENACC_FINISH', 'OpenACC finish'), (47, 'TRACE_PROCESS_EVENT_OPENACC_INIT_ERROR', 'OpenACC init error'),
  (48, 'TRACE_PROCESS_EVENT_OPENACC', 'OpenACC'), (49, 'TRACE_PROCESS_EVENT_CPU_FPS', 'CPU FPS'),
  (50, 'TRACE_PROCESS_EVENT_GPU_FPS', 'GPU FPS'), (51, 'TRACE_PROCESS_EVENT_GL_MULTI_ERROR', 'GL multi-error'),
  (52, 'TRACE_PROCESS_EVENT_DX12_DISPLAY', 'DX12 display'), (53, 'TRACE_PROCESS_EVENT_VULKAN_API', 'Vulkan API'),
  (54, 'TRACE_PROCESS_EVENT_VULKAN_WORKLOAD', 'Vulkan workload'), (55, 'TRACE_PROCESS_EVENT_VULKAN_START', 'Vulkan start'),
  (56, 'TRACE_PROCESS_EVENT_VULKAN_FINISH', 'Vulkan finish'), (57, 'TRACE_PROCESS_EVENT_SYSTEM_EVENT', 'System event'),
  (58, 'TRACE_PROCESS_EVENT_GPU_MEMORY', 'GPU memory'), (59, 'TRACE_PROCESS_EVENT_DX12_CREATE_OBJECT', 'DX12 create object'),
  (60, 'TRACE_PROCESS_EVENT_VULKAN_CREATE_OBJECT', 'Vulkan create object'),
  (61, 'TRACE_PROCESS_EVENT_CUSTOM_ETW_TRACE', 'Custom ETW trace'), (62, 'TRACE_PROCESS_EVENT_SLI_DEPRECATED', 'SLI (Deprecated)'),
  (63, 'TRACE_PROCESS_EVENT_SLI_START_DEPRECATED', 'SLI start (Deprecated)'),
  (64, 'TRACE_PROCESS_EVENT_SLI_FINISH_DEPRECATED', 'SLI finish (Deprecated)'),
  (65, 'TRACE_PROCESS_EVENT_DX12_DEBUG_API', 'DX12 debug API'), (66, 'TRACE_PROCESS_EVENT_VULKAN_DEBUG_API', 'Vulkan debug API'),
  (67, 'TRACE_PROCESS_EVENT_CUDABACKTRACE', 'CUDA backtrace'), (68, 'TRACE_PROCESS_EVENT_CUDABACKTRACE_START', 'CUDA backtrace start'),
  (69, 'TRACE_PROCESS_EVENT_CUDABACKTRACE_FINISH', 'CUDA backtrace finish'), (70, 'TRACE_PROCESS_EVENT_WDDM', 'WDDM'),
  (71, 'TRACE_PROCESS_EVENT_DX11_API', 'DX11 API'), (72, 'TRACE_PROCESS_EVENT_DX11_START', 'DX11 start'),
  (73, 'TRACE_PROCESS_EVENT_DX11_FINISH', 'DX11 finish'), (74, 'TRACE_PROCESS_EVENT_DX11_CREATE_OBJECT', 'DX11 create object'),
  (75, 'TRACE_PROCESS_EVENT_DX11_DEBUG_API', 'DX11 debug API'), (76, 'TRACE_PROCESS_EVENT_DXCOMMON_API', 'DX common API'),
  (77, 'TRACE_PROCESS_EVENT_CUDA_GRAPH_NODE_CREATION', 'CUDA graph node creation'), (78, 'TRACE_PROCESS_EVENT_OPENMP', 'OpenMP'),
  (79, 'TRACE_PROCESS_EVENT_OPENMP_START', 'OpenMP start'), (80, 'TRACE_PROCESS_EVENT_OPENMP_FINISH', 'OpenMP finish'),
  (81, 'TRACE_PROCESS_EVENT_NVAPI', 'NV API'), (82, 'TRACE_PROCESS_EVENT_ETWDXGKRNL', 'ETW DXG KRNL'),
  (83, 'TRACE_PROCESS_EVENT_NVENCODE', 'NVENCODE'), (84, 'TRACE_PROCESS_EVENT_NVENCODE_START', 'NVENCODE start'),
  (85, 'TRACE_PROCESS_EVENT_NVENCODE_FINISH', 'NVENCODE finish'), (86, 'TRACE_PROCESS_EVENT_NVDECODE', 'NVDECODE'),
  (87, 'TRACE_PROCESS_EVENT_NVDECODE_START', 'NVDECODE start'), (88, 'TRACE_PROCESS_EVENT_NVDECODE_FINISH', 'NVDECODE finish'),
  (89, 'TRACE_PROCESS_EVENT_NVJPEG', 'nvJPEG'), (90, 'TRACE_PROCESS_EVENT_NVJPEG_START', 'nvJPEG start'),
  (91, 'TRACE_PROCESS_EVENT_NVJPEG_FINISH', 'nvJPEG finish'), (92, 'TRACE_PROCESS_EVENT_DX12_BATCH_WORKLOAD', 'DX12 batch workload'),
  (93, 'TRACE_PROCESS_EVENT_VULKAN_BATCH_WORKLOAD', 'Vulkan batch workload'),
  (94, 'TRACE_PROCESS_EVENT_CUDA_GRAPHEXEC_CREATION', 'CUDA graph exec creation'),
  (95, 'TRACE_PROCESS_EVENT_CUDA_GRAPH_CREATION', 'CUDA graph creation'),
  (96, 'TRACE_PROCESS_EVENT_CUDA_GRAPH_CLONE', 'CUDA graph clone'), (98, 'TRACE_PROCESS_EVENT_OPENCL', 'OpenCL event'),
  (99, 'TRACE_PROCESS_EVENT_OPENCL_START', 'OpenCL start'), (100, 'TRACE_PROCESS_EVENT_OPENCL_FINISH', 'OpenCL finish'),
  (101, 'TRACE_PROCESS_EVENT_OPENCL_INIT_ERROR', 'OpenCL Init error'), (102, 'TRACE_PROCESS_EVENT_CUDA_JIT', 'CUDA JIT'),
  (103, 'TRACE_PROCESS_EVENT_CUDA_OVERHEAD', 'CUDA overhead'), (104, 'TRACE_PROCESS_EVENT_OPENXR', 'OpenXR event'),
  (105, 'TRACE_PROCESS_EVENT_OPENXR_START', 'OpenXR start'), (106, 'TRACE_PROCESS_EVENT_OPENXR_FINISH', 'OpenXR finish'),
  (107, 'TRACE_PROCESS_EVENT_SYSCALL', 'Syscall'), (108, 'TRACE_PROCESS_EVENT_TEGRA_INTERNAL', 'Tegra Internal API'),
  (109, 'TRACE_PROCESS_EVENT_TEGRA_INTERNAL_START', 'Tegra Internal API start'),
  (110, 'TRACE_PROCESS_EVENT_TEGRA_INTERNAL_FINISH', 'Tegra Internal API finish'),
  (111, 'TRACE_PROCESS_EVENT_CUDA_GRAPH_EXEC_NODE_SET_PARAMS', 'CUDA graph exec-node set params');
CREATE TABLE ENUM_NSYS_EVENT_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES
  (0, 'Unknown', 'Unknown'), (1, 'CpuCycles', 'CpuCycles'), (2, 'Instructions', 'Instructions'),
  (3, 'CacheReferences', 'CacheReferences'), (4, 'L1CacheDataWriteMisses', 'L1CacheDataWriteMisses'),
  (5, 'L1CacheDataReadMisses', 'L1CacheDataReadMisses'), (6, 'L1CacheInstructionMisses', 'L1CacheInstructionMisses'),
  (7, 'L2CacheDataWriteMisses', 'L2CacheDataWriteMisses'), (8, 'L2CacheDataReadMisses', 'L2CacheDataReadMisses'),
  (9, 'L2CacheInstructionMisses', 'L2CacheInstructionMisses'), (10, 'BranchInstructions', 'BranchInstructions'),
  (11, 'BranchMisses', 'BranchMisses'), (12, 'BusCycles', 'BusCycles'), (13, 'CpuClock', 'CpuClock'), (14, 'TaskClock', 'TaskClock'),
  (15, 'PageFault', 'PageFault'), (16, 'ContextSwitches', 'ContextSwitches'), (17, 'CpuMigrations', 'CpuMigrations'),
  (18, 'PageFaultsMin', 'PageFaultsMin'), (19, 'PageFaultsMax', 'PageFaultsMax'), (20, 'AlignmentFaults', 'AlignmentFaults'),
  (21, 'EmulationFaults', 'EmulationFaults'), (22, 'ThreadState', 'ThreadState'), (23, 'Frames', 'Frames'),
  (24, 'Annotations', 'Annotations'), (25, 'SchedSwitch', 'SchedSwitch'), (26, 'SchedWakeup', 'SchedWakeup'),
  (27, 'Command', 'Command'), (28, 'Mmap', 'Mmap'), (29, 'MemUsage', 'MemUsage'), (30, 'Emc', 'Emc'), (31, 'Composite', 'Composite'),
  (32, 'NvtxEvents', 'NvtxEvents'), (33, 'NvtxCategory', 'NvtxCategory'), (34, 'NvtxMark', 'NvtxMark'),
  (35, 'NvtxPushRange', 'NvtxPushRange'), (36, 'NvtxPopRange', 'NvtxPopRange'), (37, 'NvtxStartRange', 'NvtxStartRange'),
  (38, 'NvtxEndRange', 'NvtxEndRange'), (39, 'NvtxThread', 'NvtxThread'), (40, 'PowerRate', 'PowerRate'), (41, 'Sched', 'Sched'),
  (42, 'CpuCyclesSelf', 'CpuCyclesSelf'), (43, 'CpuCyclesTotal', 'CpuCyclesTotal'), (44, 'CpuCyclesSelfPlus', 'CpuCyclesSelfPlus'),
  (45, 'Cuda', 'Cuda'), (46, 'CudaDevice', 'CudaDevice'), (47, 'TraceProcess', 'TraceProcess'),
  (48, 'TraceFunctions', 'TraceFunctions'), (49, 'Diagnostic', 'Diagnostic'), (50, 'GlWorkload', 'GlWorkload'),
  (51, 'BandwidthUsage', 'BandwidthUsage'), (52, 'KhrDebugMark', 'KhrDebugMark'), (53, 'KhrDebugPushRange', 'KhrDebugPushRange'),
  (54, 'KhrDebugPopRange', 'KhrDebugPopRange'), (55, 'KhrDebugGpuMark', 'KhrDebugGpuMark'),
  (56, 'KhrDebugGpuPushRange', 'KhrDebugGpuPushRange'), (57, 'KhrDebugGpuPopRange', 'KhrDebugGpuPopRange'),
  (58, 'GpuCtxsw', 'GpuCtxsw'), (59, 'NvtxPushPopRange', 'NvtxPushPopRange'), (60, 'NvtxStartEndRange', 'NvtxStartEndRange'),
  (61, 'ProfTime', 'ProfTime'), (62, 'KhrDebugPushPopRange', 'KhrDebugPushPopRange'),
  (63, 'KhrDebugGpuPushPopRange', 'KhrDebugGpuPushPopRange'), (64, 'NvtxtCategory', 'NvtxtCategory'), (65, 'NvtxtMark', 'NvtxtMark'),
  (66, 'NvtxtPushRange', 'NvtxtPushRange'), (67, 'NvtxtPopRange', 'NvtxtPopRange'), (68, 'NvtxtStartRange', 'NvtxtStartRange'),
  (69, 'NvtxtEndRange', 'NvtxtEndRange'), (70, 'NvtxtPushPopRange', 'NvtxtPushPopRange'),
  (71, 'NvtxtStartEndRange', 'NvtxtStartEndRange'), (72, 'NvtxtMetaThread', 'NvtxtMetaThread'),
  (73, 'NvtxtMetaProcess', 'NvtxtMetaProcess'), (74, 'NvtxtMetaFileDisplay', 'NvtxtMetaFileDisplay'),
  (75, 'NvtxDomainCreate', 'NvtxDomainCreate'), (76, 'NvtxDomainDestroy', 'NvtxDomainDestroy'), (77, 'NvnGpuCmdBuf', 'NvnGpuCmdBuf'),
  (78, 'TraceVSync', 'TraceVSync'), (79, 'CudaDeviceKernel', 'CudaDeviceKernel'), (80, 'CudaDeviceMemory', 'CudaDeviceMemory'),
  (81, 'Pmu', 'Pmu'), (82, 'NvnGpuDraw', 'NvnGpuDraw'), (83, 'NvnGpuCompute', 'NvnGpuCompute'), (84, 'NvnGpuDebug', 'NvnGpuDebug'),
  (85, 'OS runtime libraries', 'OS runtime libraries'), (86, 'CuDNN', 'CuDNN'), (87, 'CuBLAS', 'CuBLAS'), (88, 'NvMedia', 'NvMedia'),
  (89, 'OpenACC', 'OpenACC'), (90, 'Correlation', 'Correlation'), (91, 'DX12', 'DX12'), (92, 'DX12Workload', 'DX12Workload'),
  (93, 'PmuRawEvent', 'PmuRawEvent'), (94, 'GraphicsFrame', 'GraphicsFrame'), (95, 'Vulkan', 'Vulkan'),
  (96, 'VulkanWorkload', 'VulkanWorkload'), (97, 'NvtxNameCudaDevice', 'NvtxNameCudaDevice'),
  (98, 'NvtxNameCudaContext', 'NvtxNameCudaContext'), (99, 'NvtxNameCudaStream', 'NvtxNameCudaStream'),
  (100, 'SystemEvent', 'SystemEvent'), (101, 'GpuMemoryEvent', 'GpuMemoryEvent'), (102, 'DX12CreateObject', 'DX12CreateObject'),
  (103, 'VulkanCreateObject', 'VulkanCreateObject'), (104, 'UnitTraceEvent', 'UnitTraceEvent'),
  (105, 'CustomETWEvent', 'CustomETWEvent'), (106, 'CudaSyncEvent', 'CudaSyncEvent'),
  (107, 'SLIEvent (DEPRECATED)', 'SLIEvent (DEPRECATED)'), (108, 'CudaBacktrace', 'CudaBacktrace'), (109, 'WddmEvent', 'WddmEvent'),
  (110, 'DX11', 'DX11'), (111, 'DX11CreateObject', 'DX11CreateObject'), (112, 'DXGI', 'DXGI'),
  (113, 'CudaGraphNodeCreation', 'CudaGraphNodeCreation'), (114, 'OpenMP', 'OpenMP'), (115, 'UncorePmuEvent', 'UncorePmuEvent'),
  (116, 'UncorePmuCarmel', 'UncorePmuCarmel'), (117, 'CudaDeviceMemoryUsage', 'CudaDeviceMemoryUsage'),
  (118, 'ETWDxgKrnlEvent', 'ETWDxgKrnlEvent'), (119, 'CudaUvmCpuPageFaultEvent', 'CudaUvmCpuPageFaultEvent'),
  (120, 'CudaUvmGpuPageFaultEvent', 'CudaUvmGpuPageFaultEvent'), (121, 'NICMetricsValuesEvent', 'NICMetricsValuesEvent'),
  (122, 'NICMetricsListEvent', 'NICMetricsListEvent'), (123, 'InterruptHandler', 'InterruptHandler'), (124, 'NvEncode', 'NvEncode'),
  (125, 'NVDecode', 'NVDecode'), (126, 'nvJPEG', 'nvJPEG'), (127, 'CudaEventRecord', 'CudaEventRecord'),
  (128, 'PerfEventCountEvent', 'PerfEventCountEvent'), (129, 'CudaDeviceMemoryPool', 'CudaDeviceMemoryPool'),
  (130, 'CudaDeviceGraph', 'CudaDeviceGraph'), (131, 'CudaGraphExecCreation', 'CudaGraphExecCreation'),
  (132, 'CudaGraphCreation', 'CudaGraphCreation'), (133, 'CudaGraphClone', 'CudaGraphClone'),
  (134, 'GpuMemoryTransferEvent', 'GpuMemoryTransferEvent'), (135, 'GlTrace', 'GlTrace'),
  (136, 'GpuVideoEngineWorkload', 'GpuVideoEngineWorkload'), (137, 'IBSwitchMetricsValuesEvent', 'IBSwitchMetricsValuesEvent'),
  (138, 'GenericEvent', 'GenericEvent'), (139, 'UncorePmuT23xScf', 'UncorePmuT23xScf'), (140, 'UncorePmuT23xDsu', 'UncorePmuT23xDsu'),
  (141, 'IBSwitchCongestionEvent', 'IBSwitchCongestionEvent'), (142, 'CudaDeviceMemcpy', 'CudaDeviceMemcpy'),
  (143, 'PerfMetricValueEvent', 'PerfMetricValueEvent'), (144, 'OpenXREvent', 'OpenXREvent'),
  (145, 'TegraInternalEvent', 'TegraInternalEvent'), (146, 'TraceStartFinish', 'TraceStartFinish'), (147, 'Syscall', 'Syscall'),
  (148, 'CudaConfidentialComputeKeyRotation', 'CudaConfidentialComputeKeyRotation'),
  (149, 'CudaGraphExecNodeSetParams', 'CudaGraphExecNodeSetParams'), (150, 'NvApi', 'NvApi'), (151, 'CudaHostFunc', 'CudaHostFunc'),
  (152, 'CudaApi', 'CudaApi'), (153, 'Overhead', 'Overhead'), (154, 'CudaOverhead', 'CudaOverhead');

-- The rows training.NAME are what the command line asked for: training.model, training.input, ...; files without their folders.
CREATE TABLE MPTUNE_META (name TEXT NOT NULL PRIMARY KEY, value TEXT);
CREATE TABLE MPTUNE_OVERHEAD (step_off_s REAL NOT NULL, step_on_s REAL NOT NULL);

-- The recording. Rows of one kind have the same order here and in their table of the Nsight layout:
--   compute                   CUPTI_ACTIVITY_KIND_KERNEL           rowid is MPTUNE_EVENT.event + 1
--   copies                    CUPTI_ACTIVITY_KIND_MEMCPY           likewise
--   memsets                   CUPTI_ACTIVITY_KIND_MEMSET           likewise
--   waits                     CUPTI_ACTIVITY_KIND_SYNCHRONIZATION  likewise
--   the recorder's own work   PROFILER_OVERHEAD                    likewise
--   ranges, then host work    NVTX_EVENTS
--   launches                  CUPTI_ACTIVITY_KIND_RUNTIME
-- name is StringIds.id - 1; device, thread and tag are row numbers of their tables. detail of a copy is MPTUNE_COPY.copy.
-- detail of compute is the number of a recorded kernel, else -1. With a recorded kernel, the row of CUPTI_ACTIVITY_KIND_KERNEL holds its
-- context, stream, grid, block, registers and shared memory. Without one it holds a launch of one thread. gridId is
-- MPTUNE_EVENT.event. Several events may have the same recorded kernel.
-- Recorded kernels without such a row are in MPTUNE_GRID. MPTUNE_LAUNCH.event is -1 for calls that launched nothing.
CREATE TABLE MPTUNE_WHAT (what INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, compute INTEGER NOT NULL);
CREATE TABLE MPTUNE_DEVICE (device INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL, cores INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL);
CREATE TABLE MPTUNE_DEVICE_PEAK (device INTEGER NOT NULL PRIMARY KEY, peak_bytes INTEGER NOT NULL);
CREATE TABLE MPTUNE_THREAD (thread INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, globalTid INTEGER NOT NULL);
CREATE TABLE MPTUNE_TAG (tag INTEGER NOT NULL PRIMARY KEY, step INTEGER NOT NULL, stage INTEGER NOT NULL, microbatch INTEGER NOT NULL,
  layer INTEGER NOT NULL, replica INTEGER NOT NULL);
CREATE TABLE MPTUNE_EVENT (event INTEGER NOT NULL PRIMARY KEY, what INTEGER NOT NULL, device INTEGER NOT NULL, lane INTEGER NOT NULL,
  name INTEGER NOT NULL, tag INTEGER NOT NULL, detail INTEGER NOT NULL);
CREATE TABLE MPTUNE_RANGE (range INTEGER NOT NULL PRIMARY KEY, what INTEGER NOT NULL, device INTEGER NOT NULL, lane INTEGER NOT NULL,
  name INTEGER NOT NULL, tag INTEGER NOT NULL, detail INTEGER NOT NULL);
CREATE TABLE MPTUNE_LAUNCH (launch INTEGER NOT NULL PRIMARY KEY, event INTEGER NOT NULL, thread INTEGER NOT NULL);
CREATE TABLE MPTUNE_COPY (copy INTEGER NOT NULL PRIMARY KEY, bytes INTEGER NOT NULL, source INTEGER NOT NULL, destination INTEGER NOT NULL);
CREATE TABLE MPTUNE_GRID (detail INTEGER NOT NULL PRIMARY KEY, context INTEGER NOT NULL, stream INTEGER NOT NULL, gridX INTEGER NOT NULL,
  gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
  registers INTEGER NOT NULL, static_shared_bytes INTEGER NOT NULL, dynamic_shared_bytes INTEGER NOT NULL, grid_id INTEGER NOT NULL);
CREATE TABLE MPTUNE_EDGE (edge INTEGER NOT NULL PRIMARY KEY, producer INTEGER NOT NULL, consumer INTEGER NOT NULL, kind INTEGER NOT NULL);
CREATE TABLE MPTUNE_MEMORY (sample INTEGER NOT NULL PRIMARY KEY, time INTEGER NOT NULL, device INTEGER NOT NULL, current_bytes INTEGER NOT NULL);
CREATE TABLE MPTUNE_STEP (position INTEGER NOT NULL PRIMARY KEY, step INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL);
CREATE TABLE MPTUNE_QUALITY (dropped INTEGER NOT NULL, untagged INTEGER NOT NULL, out_of_window INTEGER NOT NULL,
  zero_stamped INTEGER NOT NULL, unmatched INTEGER NOT NULL, cut_off INTEGER NOT NULL,
  ambiguous INTEGER NOT NULL, unmatched_ns INTEGER NOT NULL);

-- The profile: costs of layers and links. forward_s and backward_s are medians of MPTUNE_LAYER_SAMPLE, NULL without samples.
-- A device class with variant_of other than -1 has the costs of that class's devices with memory_format 0 contiguous, 1 channels_last, with
-- slow kernels replaced or not, and with so many intra-op threads, 0 for one per core.
-- kind of a sample: 0 forward, 1 backward, 2 forward and 3 backward with the other devices busy, 4 gradients of inputs and 5 of weights.
-- estimated names the kind of GPU that the costs were estimated for; it is empty if they were measured.
-- A split backward has a row in MPTUNE_LAYER_SPLIT per cost for which it was measured. fused_share is NULL where it is unknown.
CREATE TABLE MPTUNE_PROFILE (model TEXT NOT NULL, input TEXT NOT NULL, batch INTEGER NOT NULL, optimizer_state_factor REAL NOT NULL,
  co_running_slowdown REAL NOT NULL, fingerprint_model TEXT NOT NULL, fingerprint_input TEXT NOT NULL, fingerprint_libtorch TEXT NOT NULL,
  fingerprint_cuda TEXT NOT NULL, precision TEXT NOT NULL, target_bytes_per_sample INTEGER NOT NULL,
  estimated TEXT NOT NULL);
CREATE TABLE MPTUNE_FINGERPRINT_DEVICE (position INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE MPTUNE_LAYER (layer INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, parameters INTEGER NOT NULL,
  parameters_bytes INTEGER NOT NULL, buffers_bytes INTEGER NOT NULL, batch_statistics INTEGER NOT NULL, unsplit_bytes INTEGER NOT NULL,
  unsplit_share REAL NOT NULL,
  written_buffer TEXT NOT NULL, parameter_tensors INTEGER NOT NULL, least_samples INTEGER NOT NULL, most_samples INTEGER NOT NULL);
CREATE TABLE MPTUNE_MODULE (position INTEGER NOT NULL PRIMARY KEY, layer INTEGER NOT NULL, module TEXT NOT NULL);
CREATE TABLE MPTUNE_LAYER_EDGE (edge INTEGER NOT NULL PRIMARY KEY, from_layer INTEGER NOT NULL, to_layer INTEGER NOT NULL,
  bytes_per_sample INTEGER NOT NULL, fixed_bytes INTEGER NOT NULL, needs_gradient INTEGER NOT NULL, several_readers INTEGER NOT NULL);
CREATE TABLE MPTUNE_TIED_PARAMETERS (position INTEGER NOT NULL PRIMARY KEY, layer INTEGER NOT NULL, earlier_layer INTEGER NOT NULL,
  bytes INTEGER NOT NULL);
CREATE TABLE MPTUNE_FORBIDDEN_CUT (position INTEGER NOT NULL PRIMARY KEY, layer INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE MPTUNE_DEVICE_CLASS (class INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, layers INTEGER NOT NULL, action_seconds REAL NOT NULL,
  step_seconds REAL NOT NULL, optimizer_seconds_per_byte REAL NOT NULL, reduce_seconds_per_byte REAL NOT NULL,
  allocator_reserve REAL NOT NULL, memory_format INTEGER NOT NULL, replaces_slow_kernels INTEGER NOT NULL, variant_of INTEGER NOT NULL,
  threads INTEGER NOT NULL, library_bytes INTEGER NOT NULL);
CREATE TABLE MPTUNE_PROFILE_DEVICE (device INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, class INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL);
CREATE TABLE MPTUNE_HOST_COPIES (device INTEGER NOT NULL PRIMARY KEY, to_latency_s REAL NOT NULL, to_bytes_per_second REAL NOT NULL,
  to_by_device INTEGER NOT NULL, to_device_seconds_per_byte REAL NOT NULL, from_latency_s REAL NOT NULL,
  from_bytes_per_second REAL NOT NULL, from_by_device INTEGER NOT NULL, from_device_seconds_per_byte REAL NOT NULL);
CREATE TABLE MPTUNE_LINK (link INTEGER NOT NULL PRIMARY KEY, source INTEGER NOT NULL, destination INTEGER NOT NULL, latency_s REAL NOT NULL,
  bytes_per_second REAL NOT NULL, medium INTEGER NOT NULL, sender_copies INTEGER NOT NULL, communicator_bytes INTEGER NOT NULL,
  tensor_s REAL NOT NULL);
CREATE TABLE MPTUNE_LINK_POINT (point INTEGER NOT NULL PRIMARY KEY, link INTEGER NOT NULL, bytes INTEGER NOT NULL, seconds REAL NOT NULL);
CREATE TABLE MPTUNE_LAYER_COST (cost INTEGER NOT NULL PRIMARY KEY, class INTEGER NOT NULL, layer INTEGER NOT NULL, samples INTEGER NOT NULL,
  forward_s REAL, backward_s REAL, output_bytes INTEGER NOT NULL, kept_bytes INTEGER NOT NULL, workspace_bytes INTEGER NOT NULL,
  keeps_output INTEGER NOT NULL);
CREATE TABLE MPTUNE_LAYER_SPLIT (cost INTEGER NOT NULL PRIMARY KEY, held_bytes INTEGER NOT NULL, held_input_bytes INTEGER NOT NULL,
  held_gradient_bytes INTEGER NOT NULL, input_workspace_bytes INTEGER NOT NULL, weight_workspace_bytes INTEGER NOT NULL,
  fused_share REAL, fused_bytes INTEGER NOT NULL);
CREATE TABLE MPTUNE_LAYER_PEAK (cost INTEGER NOT NULL PRIMARY KEY, bare_forward_bytes INTEGER NOT NULL,
  first_backward_bytes INTEGER NOT NULL);
CREATE TABLE MPTUNE_LAYER_SAMPLE (sample INTEGER NOT NULL PRIMARY KEY, cost INTEGER NOT NULL, kind INTEGER NOT NULL, value REAL NOT NULL,
  round INTEGER NOT NULL, position INTEGER NOT NULL, started REAL NOT NULL);
-- The operator that takes most of a layer's time where its cost per sample jumps. replaced_seconds: with slow kernels replaced, 0 without any.
CREATE TABLE MPTUNE_LAYER_OPERATOR (position INTEGER NOT NULL PRIMARY KEY, class INTEGER NOT NULL, layer INTEGER NOT NULL,
  samples INTEGER NOT NULL, name TEXT NOT NULL, share REAL NOT NULL, seconds REAL NOT NULL, replaced_seconds REAL NOT NULL);
