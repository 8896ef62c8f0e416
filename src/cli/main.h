#pragma once
// The command line: everything of `waybill` but the inside of `serve`.

namespace waybill::cli {

// Gives the exit code (SPEC: 0, the job's own, or 119 to 127).
int main(int argc, char** argv);

}  // namespace waybill::cli
