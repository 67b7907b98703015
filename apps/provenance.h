#pragma once

#include <string>
#include <vector>

#include "output.h"

namespace topomask::apps {

/// The command line of this process, as a shell would take it. Set once, by main.
void set_command_line(const std::vector<std::string>& arguments);
const std::string& command_line();

/// "2025-03-01 14:05 UTC"
std::string date_now();

/// Where a computation ran: processor, cores, threads, memory, GPU, versions of topomask and torch.
Json machine();

/// Adds command, date and machine to provenance.json in the folder of a run, which has one entry for each time that the
/// run was started or continued.
void record_provenance(const std::string& folder, const std::string& started);

/// Those entries; empty where there is no such file.
Json read_provenance(const std::string& folder);

}  // namespace topomask::apps
