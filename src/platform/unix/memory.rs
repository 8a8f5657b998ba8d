//! Owns this process's own memory: how the allocator takes it from the system and what is returned. Without effect where
//! the allocator is not glibc's or the system not Linux.

/// Makes the allocator return large blocks to the system once they are free, and keep one heap for all threads: each
/// thread's own would be a few pages that hardly anything is in.
pub(crate) fn return_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code, reason = "the allocator's settings have no other interface")]
    // SAFETY: takes two numbers, and may be called at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Makes the allocator take memory from the system in few large pieces and keep them: a program that ends at once has no use
/// for returning any.
pub(crate) fn keep_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code, reason = "the allocator's settings have no other interface")]
    // SAFETY: takes two numbers, and may be called at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 256 << 20);
        libc::mallopt(libc::M_TOP_PAD, 16 << 20);
    }
}

/// Returns the memory that only the start needed: free blocks of the heap, and the pages of the program's file that are
/// mapped. A page that is needed again is mapped again out of the system's cache.
pub(crate) fn return_what_the_start_took() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[allow(unsafe_code, reason = "the allocator has no other interface")]
        // SAFETY: takes a number, and may be called at any time.
        unsafe {
            libc::malloc_trim(0);
        }
        program::unmap();
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod program {
    //! Owns the pages of this program's own file.

    use std::ffi::{c_int, c_void};

    use rustix::mm::{Advice, madvise};

    /// Unmaps what is only read: code and constants. What was written to, as the loader does with addresses, stays.
    pub(super) fn unmap() {
        let mut segments: Vec<(usize, usize)> = Vec::new();
        #[allow(unsafe_code, reason = "the loader has no other interface")]
        // SAFETY: the callback gets this vector, and nobody else uses it meanwhile.
        unsafe {
            libc::dl_iterate_phdr(Some(note_segments), (&raw mut segments).cast());
        }
        let page = rustix::param::page_size();
        for (start, end) in segments {
            // Only whole pages: what shares one with a segment that is written to stays mapped.
            let (start, end) = (start.next_multiple_of(page), end - end % page);
            if start < end {
                #[allow(unsafe_code, reason = "the kernel has no other interface")]
                // SAFETY: these pages are mapped from the program's file and were never written to, so the kernel maps
                // them again as they are when they are touched.
                let _ = unsafe { madvise(start as *mut c_void, end - start, Advice::LinuxDontNeed) };
            }
        }
    }

    /// Notes where the segments of the program itself lie that nobody may write to; it is the first object.
    #[allow(unsafe_code, reason = "the loader passes pointers")]
    unsafe extern "C" fn note_segments(object: *mut libc::dl_phdr_info, _: usize, segments: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid object, with as many headers as it says, and the vector of `unmap`.
        let (object, segments) = unsafe { (&*object, &mut *segments.cast::<Vec<(usize, usize)>>()) };
        // SAFETY: as above.
        let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
        for header in headers {
            let is_only_read = header.p_flags & libc::PF_W == 0;
            if header.p_type != libc::PT_LOAD || !is_only_read {
                continue;
            }
            let bounds = usize::try_from(object.dlpi_addr.wrapping_add(header.p_vaddr))
                .and_then(|start| Ok((start, start.saturating_add(usize::try_from(header.p_memsz)?))));
            segments.extend(bounds);
        }
        // No other object is wanted.
        1
    }
}

#[cfg(test)]
mod tests {
    use super::return_what_the_start_took;

    #[test]
    fn the_program_runs_on_with_its_constants_after_its_pages_were_unmapped() {
        let before = crate::text::harmless("a\tb").into_owned();
        return_what_the_start_took();
        assert_eq!(crate::text::harmless("a\tb"), before);
    }
}
