// SPDX-License-Identifier: GPL-2.0-only
/* /proc/flexguard: `lock` is the name of the kernel's spinlock, `torture` (torture.c) runs it, `counts` (counts.c) is
 * there in a kernel that counts. And a guest that ends prints first what it has to say. */
#include <linux/console.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/reboot.h>

#include "counts.h"
#include "proc.h"

static int show_lock(struct seq_file *m, void *unused)
{
	seq_printf(m, "%s\n", IS_ENABLED(CONFIG_FLEXGUARD_SPINLOCK) ? flexguard_lock_name : "qspinlock");
	return 0;
}

static int open_torture(struct inode *inode, struct file *file)
{
	return single_open(file, flexguard_torture_show, NULL);
}

static const struct proc_ops torture_ops = {
	.proc_open = open_torture,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
	.proc_write = flexguard_torture_write,
};

#ifdef FLEXGUARD_COUNTS
static int open_counts(struct inode *inode, struct file *file)
{
	return single_open(file, flexguard_counts_show, NULL);
}

static ssize_t clear_counts(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	flexguard_counts_clear();
	return size;
}

static const struct proc_ops counts_ops = {
	.proc_open = open_counts,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
	.proc_write = clear_counts,
};
#endif

/* printk leaves its text to the virtual CPU that is printing. If that one is off its CPU when the guest ends, the text
 * would be lost: locktorture's verdict is printed last. */
static int print_the_rest(struct notifier_block *self, unsigned long action, void *unused)
{
	console_lock();
	console_unlock(); /* prints all there is */
	return NOTIFY_DONE;
}

static struct notifier_block at_the_end = {.notifier_call = print_the_rest};

static int __init make_files(void)
{
	struct proc_dir_entry *folder = proc_mkdir("flexguard", NULL);

	register_reboot_notifier(&at_the_end);

	if (!folder)
		return -ENOMEM;
	proc_create_single("lock", 0444, folder, show_lock);
	proc_create("torture", 0600, folder, &torture_ops);
#ifdef FLEXGUARD_COUNTS
	proc_create("counts", 0600, folder, &counts_ops);
#endif
	return 0;
}
device_initcall(make_files);
