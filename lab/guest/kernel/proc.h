/* SPDX-License-Identifier: GPL-2.0-only */
/* The files of /proc/flexguard. */
#ifndef FLEXGUARD_PROC_H
#define FLEXGUARD_PROC_H

#include <linux/fs.h>
#include <linux/seq_file.h>

ssize_t flexguard_torture_write(struct file *file, const char __user *from, size_t size, loff_t *at);
int flexguard_torture_show(struct seq_file *m, void *unused);
int flexguard_counts_show(struct seq_file *m, void *unused);
void flexguard_counts_clear(void);

#endif
